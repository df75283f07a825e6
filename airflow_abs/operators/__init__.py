"""What authors declare, and the tasks of a job: plan, decide, run, commit, release, and a server for a run.

An operator takes what Airflow gives a worker and hands it down. How a subtask lives or a number is decided is not here.
"""
