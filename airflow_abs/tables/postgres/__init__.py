"""PostgreSQL as a source and as a sink, over libpq from Airflow's side: Spark never learns a password."""
