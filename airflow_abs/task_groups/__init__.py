"""`AdaptiveSparkJob`, and the compiler that makes Airflow's tasks of it.

The compiler stands here, not in a room of its own: a task group alone sees all its vertices, when it closes, and only
while a DAG file is parsed. No data is read and no Spark is asked. `dag_file` reads what a file declares, for the
command line.
"""
