"""`python -m testbed demo`: what `airflow-abs demo` runs, on a cluster that is started for it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_abs.cli.commands.demo import add_demo_arguments, demo_options

if TYPE_CHECKING:
    from airflow_abs.cli.output.terminal import Terminal
    from airflow_abs.demo.run import DemoOptions
    from airflow_abs.demo.services import AirflowServices, Report


def add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    demo = commands.add_parser(
        "demo",
        help="airflow-abs demo, on PostgreSQL, Celery and a Spark cluster of two workers",
        description="Runs the example DAGs as `airflow-abs demo` does, on a cluster in a temporary folder. Exit status "
        "0 only if all was right and each Spark worker had something to do.",
    )
    add_demo_arguments(demo)
    demo.set_defaults(run=_demo)


def run_on_cluster(options: DemoOptions, terminal: Terminal) -> bool:
    """True if every run succeeded with the right output, and every Spark worker had a part in it."""
    from airflow_abs.demo.run import run_demo
    from testbed.processes import ClusterProcesses
    from testbed.spread import WorkerTasks, lines_of_spread, read_spread

    workers: list[WorkerTasks] = []

    @contextmanager
    def open_cluster(folder: Path, environment: dict[str, str], report: Report) -> Iterator[AirflowServices]:
        folder.chmod(0o711)  # PostgreSQL may run as a user of its own
        with ClusterProcesses(folder / "cluster", options.dags_folder, env=environment, report=report) as cluster:
            yield cluster.airflow
            workers.extend(read_spread(cluster.place))

    right = run_demo(options, terminal, open_cluster)
    for line in lines_of_spread(workers):
        terminal.show(line)
    return right and all(worker.tasks for worker in workers)


def _demo(options: argparse.Namespace) -> int:
    from airflow_abs.cli.output.terminal import Terminal

    with Terminal() as terminal:
        return 0 if run_on_cluster(demo_options(options), terminal) else 1
