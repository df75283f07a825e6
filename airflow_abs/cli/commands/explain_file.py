"""`airflow-abs explain dags/file.py`: the graph and its regions, before anything ran."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_abs.cli.output.graph_text import job_lines, job_to_dot
from airflow_abs.cli.output.tables import show

if TYPE_CHECKING:
    from airflow_abs.task_groups.dag_file import DeclaredJob


def explain_file(path: Path, form: str) -> int:
    """Print every job that the file declares; `form` is text, json or dot. The exit status."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; expected a DAG file")
    with tempfile.TemporaryDirectory(prefix="airflow-abs-explain-") as home:
        jobs = _read(path.absolute(), home)
    match form:
        case "json":
            print(json.dumps([_to_json(job) for job in jobs], indent=2))
        case "dot":
            print("\n".join(job_to_dot(f"{job.dag_id}/{job.job}", job.graph) for job in jobs))
        case _:
            for job in jobs:
                show([f"{job.dag_id} / {job.job}", *job_lines(job.graph)])
    return 0


def _read(path: Path, home: str) -> list[DeclaredJob]:
    """Airflow is imported here, in a home of its own if there is none, and without its log lines."""
    os.environ.setdefault("AIRFLOW_HOME", home)
    os.environ.setdefault("AIRFLOW__ADAPTIVE_SPARK__EXCHANGE", "file:///nowhere")
    os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    os.environ.setdefault("AIRFLOW__LOGGING__LOGGING_LEVEL", "ERROR")
    logging.disable(logging.WARNING)
    try:
        from airflow_abs.task_groups.dag_file import read_dag_file

        return read_dag_file(path)
    finally:
        logging.disable(logging.NOTSET)


def _to_json(job: DeclaredJob) -> dict[str, Any]:
    return {
        "dag_id": job.dag_id,
        "job": job.job,
        "vertices": [asdict(vertex) for vertex in job.graph.vertices],
        "edges": [asdict(edge) for edge in job.graph.edges],
        "regions": [{"name": region.name, "vertices": list(region.vertices)} for region in job.graph.regions],
    }
