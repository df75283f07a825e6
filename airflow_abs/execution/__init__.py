"""What a task does while it runs, in a worker or in the triggerer: a subtask's life, a decision, slots, the end.

Also what it tells: metrics, spans, lineage, the link to the page. No operator or trigger of Airflow is defined here.
"""
