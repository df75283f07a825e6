"""A sink's files become visible in their folder all at once, or not at all.

Tables publish in `airflow_abs.tables`, which may import this; nothing here imports a table.
"""
