"""What Airflow knows and is asked for: connections (a Spark server, a catalog, storage), unfinished runs, secrets.

Also the Spark server of a run, which a connection describes. Nothing here knows of tasks, or tells Airflow anything.
"""
