"""`airflow-abs demo`: data, a real Airflow and Spark on this host, and DuckDB's answer to compare with.

Tests start the same services. Nothing that a production task needs is here.
"""
