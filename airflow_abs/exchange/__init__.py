"""Files that Airflow and Spark share: the only state of a run outside of both. No Spark session and no Airflow here."""
