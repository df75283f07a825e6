"""`airflow-abs server`: the embedded Spark server that the tasks of this host share."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

NOT_RUNNING = 1


def show_status(folder: Path) -> int:
    """Print what runs in `folder`; 0 if a server does, else 1."""
    from airflow_abs.spark.server.embedded import embedded_status

    status = embedded_status(folder)
    if not status.running:
        print(f"embedded Spark: not running (folder {status.folder})")
        return NOT_RUNNING
    since = datetime.fromtimestamp(status.started or 0, UTC)
    print(
        f"embedded Spark: running at {status.address} since {since:%Y-%m-%d %H:%M:%S} UTC\n"
        f"  processes  keeper {status.keeper_pid}, JVM {status.jvm_pid}\n"
        f"  log        {status.log}"
    )
    return 0


def stop_server(folder: Path) -> int:
    """End the server of `folder`, and with it what runs on it; 0 also if there is none."""
    from airflow_abs.spark.server.embedded import stop_embedded_server

    was_running = stop_embedded_server(folder)
    print("embedded Spark: stopped" if was_running else f"embedded Spark: was not running (folder {folder})")
    return 0


def prepare_server() -> int:
    """Store the classes of a server for all later ones."""
    from airflow_abs.spark.server.preparing import make_class_archive

    print("embedded Spark: running a small job on a server of its own to store its classes (half a minute)", flush=True)
    archive = make_class_archive()
    print(f"embedded Spark: prepared, {archive.path.stat().st_size / 1e6:.0f} MB in {archive.path}")
    return 0


def install_server(release: str | None) -> int:
    """Put a release of Spark beside Airflow, the client's own if None."""
    import os

    from airflow_abs.spark.connect.protocol import client_version
    from airflow_abs.spark.server.whole_spark import install_spark

    release = release or client_version()
    print(f"embedded Spark: Spark {release}, some 400 MB", flush=True)
    print(f"embedded Spark: installed in {install_spark(release, os.environ)}")
    return 0


def bring_jars(connector: str | None, folder: Path | None, release: str | None) -> int:
    """Fetch the jars of a connector that are missing, and say how a server gets them; 2 without its name."""
    import os

    from airflow_abs.spark.server.connector_jars import CONNECTORS, SETTINGS, SPARK, fetch_jars

    if connector is None:
        print(f"airflow-abs server jars: expected one of {', '.join(CONNECTORS)}", file=sys.stderr)
        return 2
    jars = fetch_jars(connector, os.environ, folder and folder.absolute(), release or SPARK)
    megabytes = sum(jar.stat().st_size for jar in jars) / 1e6
    print(f"{len(jars)} jars of {connector}, {megabytes:.0f} MB, in {jars[0].parent}")
    print(f"  a Dockerfile       COPY {jars[0].parent.name}/*.jar $SPARK_HOME/jars/")
    print("  a Connect server, in spark-defaults.conf:")
    for name, value in {"spark.jars": f"{jars[0].parent}/*.jar", **SETTINGS[connector]}.items():
        print(f"    {name} {value}")
    return 0
