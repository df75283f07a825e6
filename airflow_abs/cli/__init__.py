"""The command line `airflow-abs`: arguments in, text and exit codes out. What is told is found out below."""
