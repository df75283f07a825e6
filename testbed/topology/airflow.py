"""How the cluster's Airflow is started: on PostgreSQL, with Celery over Redis, with two triggerers."""

from __future__ import annotations

import json
from dataclasses import replace

from testbed.topology.place import DONE, HEALTHY, OUR_IMAGE, TRIGGERERS, Condition, Limits, Place, Service, curl

CELERY_WORKER = (
    *("airflow", "celery", "worker", "--skip-serve-logs"),
    *("--celery-hostname", "celery@worker", "--without-gossip", "--without-mingle"),
)
CELERY_PING = (
    *("celery", "--app", "airflow.providers.celery.executors.celery_executor.app"),
    *("inspect", "ping", "--timeout", "5", "--destination", "celery@worker"),
)


def airflow_services(place: Place) -> list[Service]:
    environment = airflow_environment(place)
    database: dict[str, Condition] = {"postgres": HEALTHY}
    migrate = Service(
        "airflow-init",
        OUR_IMAGE,
        ("airflow", "db", "migrate"),
        environment,
        Limits(1, 1024),
        database,
        mounts=("airflow",),
    )
    base = Service(
        "",
        OUR_IMAGE,
        (),
        environment,
        Limits(1, 1536),
        {"airflow-init": DONE},
        mounts=("dags", "secrets/ca.crt", "shared", "airflow"),
        start_seconds=180,
    )
    api: dict[str, Condition] = {"airflow-init": DONE, "api-server": HEALTHY}
    spark: dict[str, Condition] = {"connect-tls": HEALTHY}
    port = str(place.ports["api-server"])
    return [
        migrate,
        replace(
            base,
            name="api-server",
            command=("airflow", "api-server", "--host", place.bind, "--port", port),
            health=curl(f"http://127.0.0.1:{port}/api/v2/version"),
            publishes=(int(port),),
        ),
        replace(
            base,
            name="scheduler",
            command=("airflow", "scheduler", "--skip-serve-logs"),
            depends_on=api | {"redis": HEALTHY},
            health=_job("SchedulerJob"),
        ),
        replace(base, name="dag-processor", command=("airflow", "dag-processor"), health=_job("DagProcessorJob")),
        *(
            replace(
                base,
                name=name,
                command=("airflow", "triggerer", "--skip-serve-logs"),
                depends_on=api | spark,
                health=_job("TriggererJob"),
            )
            for name in TRIGGERERS
        ),
        replace(
            base,
            name="worker",
            command=CELERY_WORKER,
            depends_on=api | spark | {"redis": HEALTHY},
            health=CELERY_PING,
            limits=Limits(2, 3072),
        ),
    ]


def airflow_environment(place: Place) -> dict[str, str]:
    """What every Airflow service is started with: database, broker, secrets, connections to Spark and to Iceberg."""
    server = f"airflow:{place.secrets['POSTGRES_PASSWORD']}@{place.address('postgres')}"
    database = f"{server}/airflow"
    connection = {
        "conn_type": "spark_connect",
        "host": place.hosts["connect-tls"],
        "port": place.ports["connect-tls"],
        "login": "airflow",
        "password": place.secrets["SPARK_CONNECT_TOKEN"],
        "extra": {"use_ssl": True},
    }
    shared = place.folders["shared"]
    # In the database that every server of PostgreSQL has: Airflow's own is Airflow's alone.
    lake = {"type": "sql", "uri": f"postgresql+psycopg2://{server}/postgres", "warehouse": f"file://{shared}/lake"}
    settings = {
        "CORE__DAGS_FOLDER": place.folders["dags"],
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__EXECUTOR": "CeleryExecutor",
        "CORE__PARALLELISM": "16",
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": str(not place.login),
        "CORE__EXECUTION_API_SERVER_URL": f"http://{place.address('api-server')}/execution/",
        "CORE__FERNET_KEY": place.secrets["AIRFLOW_FERNET_KEY"],
        "DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{database}",
        "DATABASE__SQL_ALCHEMY_CONN_ASYNC": f"postgresql+asyncpg://{database}",
        "CELERY__BROKER_URL": f"redis://:{place.secrets['REDIS_PASSWORD']}@{place.address('redis')}/0",
        "CELERY__RESULT_BACKEND": f"db+postgresql+psycopg2://{database}",
        "CELERY__WORKER_CONCURRENCY": "4",
        "API__SECRET_KEY": place.secrets["AIRFLOW_API_SECRET"],
        "API_AUTH__JWT_SECRET": place.secrets["AIRFLOW_JWT_SECRET"],
        "LOGGING__BASE_LOG_FOLDER": f"{place.folders['airflow']}/logs",
        # An api-server takes a minute or two to come back. By default a task gives up within 15 s, and each time
        # costs one of its retries; so it waits about three minutes.
        "WORKERS__EXECUTION_API_RETRIES": "40",
        "WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "10",
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
        # A triggerer takes so many new triggers at a time: few, so that the other one gets its part of a region.
        "TRIGGERER__MAX_TRIGGER_TO_SELECT_PER_LOOP": "16",
        "ADAPTIVE_SPARK__EXCHANGE": f"file://{shared}/exchange",
        # The demo's data are so small that nothing would be spread; here it is to be seen.
        "ADAPTIVE_SPARK__DURABILITY": "always",
        "ADAPTIVE_SPARK__SHARE_TASKS": "False",
    }
    return {f"AIRFLOW__{name}": value for name, value in settings.items()} | {
        "AIRFLOW_HOME": place.folders["airflow"],
        "AIRFLOW_CONN_SPARK_CONNECT_DEFAULT": json.dumps(connection),
        "AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "iceberg", "extra": lake}),
        "AIRFLOW_ABS_DEMO_DATA": f"{shared}/data",
        "AIRFLOW_ABS_DEMO_OUT": f"{shared}/mart",
        # Whom gRPC believes: the cluster's own certificate authority. For all gRPC of these processes.
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": f"{place.folders['secrets']}/ca.crt",
    }


def _job(kind: str) -> tuple[str, ...]:
    return ("airflow", "jobs", "check", "--local", "--job-type", kind)
