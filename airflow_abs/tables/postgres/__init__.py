"""PostgreSQL as a source and as a sink, over libpq from Airflow's side: Spark must never learn a password."""
