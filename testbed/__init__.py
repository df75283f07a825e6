"""What this repository tries the package on, and no user of the wheel needs: a cluster as processes of one host.

    python -m testbed cluster up|status|down     PostgreSQL, Redis, Spark, TLS, Airflow with Celery (docs/cluster.md)
    python -m testbed demo                       `airflow-abs demo` on such a cluster
    python -m testbed.host                       what the tests need of this host, and which are skipped without it
    python3 -m testbed.secrets                   passwords and a certificate for docker-compose.yaml

It imports the package; the package imports nothing of it, and the wheel does not hold it. `topology/` describes the
cluster, `processes.py` starts what it describes, in the folder of `folder.py`.
"""
