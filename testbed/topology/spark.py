"""How the cluster's Spark is started: a standalone master, workers, and a Connect server as its one application."""

from __future__ import annotations

from testbed.topology.place import HEALTHY, OUR_IMAGE, WORKERS, Limits, Place, Service, curl

WORKER_CORES = 1
# An executor of 768 MiB needs 1152: Spark adds 384 outside of the heap.
WORKER_MEMORY = "1152m"
EXECUTOR_MEMORY = "768m"
DRIVER_MEMORY = "1g"
RECOVERY_FOLDER = "spark-master"
"""Of the place's folder `work`: the workers and applications that the master knows."""
# The master's REST submission knows no secret: without it, anyone who reaches the port runs programs.
_DAEMON_SETTINGS = ("spark.authenticate=true", "spark.network.crypto.enabled=true", "spark.master.rest.enabled=false")
# Without it, a master that comes back knows no application: workers end the server's executors, and it gets no others.
# The folder is in the working directory, because this variable is split at blanks.
_MASTER_SETTINGS = ("spark.deploy.recoveryMode=FILESYSTEM", f"spark.deploy.recoveryDirectory={RECOVERY_FOLDER}")


def spark_services(place: Place) -> list[Service]:
    master_ui = f"http://{place.address('spark-master-ui')}"
    master = Service(
        "spark-master",
        OUR_IMAGE,
        _master_command(place),
        _daemon_environment(place, "spark-master", *_MASTER_SETTINGS),
        Limits(0.5, 768),
        health=curl(f"{master_ui}/json/"),
        networks=("spark",),
        publishes=(place.ports["spark-master-ui"],),
    )
    workers = [spark_worker(place, name) for name in WORKERS]
    token = {"SPARK_CONNECT_AUTHENTICATE_TOKEN": place.secrets["SPARK_CONNECT_TOKEN"]}
    connect = Service(
        "spark-connect",
        OUR_IMAGE,
        _connect_command(place),
        _spark_environment(place, "spark-connect") | token,
        Limits(1, 2048),
        dict.fromkeys(WORKERS, HEALTHY),
        health=("python", "-m", "airflow_abs.cli.probe", f"127.0.0.1:{place.ports['spark-connect']}"),
        mounts=("shared", "secrets/spark.conf"),
        networks=("spark",),
        start_seconds=120,
    )
    return [master, *workers, connect]


def spark_worker(place: Place, name: str) -> Service:
    """A worker that joins the master; `place` knows its host and its ports, `name` and `name-ui`."""
    return Service(
        name,
        OUR_IMAGE,
        _worker_command(place, name),
        _daemon_environment(place, name),
        Limits(1.5, 2048),
        {"spark-master": HEALTHY},
        health=curl(f"http://{place.address(f'{name}-ui')}/json/"),
        mounts=("shared",),
        networks=("spark",),
    )


def _master_command(place: Place) -> tuple[str, ...]:
    return (
        "spark-class",
        "org.apache.spark.deploy.master.Master",
        *("--host", place.hosts["spark-master"]),
        *("--port", str(place.ports["spark-master"])),
        *("--webui-port", str(place.ports["spark-master-ui"])),
    )


def _worker_command(place: Place, name: str) -> tuple[str, ...]:
    return (
        "spark-class",
        "org.apache.spark.deploy.worker.Worker",
        *("--host", place.hosts[name]),
        *("--port", str(place.ports[name])),
        *("--webui-port", str(place.ports[f"{name}-ui"])),
        *("--cores", str(WORKER_CORES)),
        *("--memory", WORKER_MEMORY),
        *("--work-dir", f"{place.folders['work']}/{name}"),
        f"spark://{place.address('spark-master')}",
    )


def _connect_command(place: Place) -> tuple[str, ...]:
    """The server's settings are those of the embedded one where they mean the same."""
    settings = {
        "spark.app.name": "airflow-abs Connect server",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.host": place.hosts["spark-connect"],
        "spark.driver.bindAddress": place.bind,
        "spark.executor.memory": EXECUTOR_MEMORY,
        "spark.ui.port": str(place.ports["spark-connect-ui"]),
        "spark.scheduler.mode": "FAIR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{place.folders['work']}/warehouse",
        "spark.connect.grpc.binding.address": place.bind,
        "spark.connect.grpc.binding.port": str(place.ports["spark-connect"]),
        "spark.connect.grpc.port.maxRetries": "0",
        "spark.connect.execute.manager.detachedTimeout": "2h",
        "spark.connect.session.manager.defaultSessionTimeout": "24h",
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
    }
    return (
        "spark-submit",
        # The one secret that a driver takes from its settings only; command lines are public.
        *("--properties-file", f"{place.folders['secrets']}/spark.conf"),
        *("--master", f"spark://{place.address('spark-master')}"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        "spark-internal",
    )


def _spark_environment(place: Place, name: str) -> dict[str, str]:
    return {
        "SPARK_HOME": place.folders["spark"],
        # Its own pages too are served on this address only.
        "SPARK_LOCAL_IP": place.hosts[name],
        "PYSPARK_PYTHON": place.folders["python"],
    }


def _daemon_environment(place: Place, name: str, *settings: str) -> dict[str, str]:
    """Of the master and the workers."""
    return _spark_environment(place, name) | {
        "SPARK_DAEMON_MEMORY": "384m",
        # Without the secret, no one can register a worker or submits an application.
        "SPARK_DAEMON_JAVA_OPTS": " ".join(f"-D{setting}" for setting in (*_DAEMON_SETTINGS, *settings)),
        "_SPARK_AUTH_SECRET": place.secrets["SPARK_RPC_SECRET"],
    }
