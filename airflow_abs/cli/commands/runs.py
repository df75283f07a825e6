"""`airflow-abs runs`: what an exchange holds; and how the other commands find the run they are given."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from airflow_abs.cli.commands.exchange_root import VARIABLE, find_exchange, open_exchange, open_uri
from airflow_abs.cli.output.tables import Column, Table, show
from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.runs.run_list import HeldRun, folder_of, list_runs
from airflow_abs.exchange.runs.run_reading import read_decisions
from airflow_abs.exchange.storage.locations import ExchangePath


def show_runs(exchange: str | None, *, as_json: bool) -> int:
    """Print the runs of an exchange, newest first; the exit status."""
    root = open_exchange(exchange)
    held = list_runs(root)
    told = [_tell(each) for each in held]
    if as_json:
        print(json.dumps(told, indent=2))
        return 0
    if not told:
        show([f"no run in {root}: expected <dag_id>/<run_id>/<job>/plan.json below it"])
        return 0
    columns = (
        Column("dag"),
        Column("run"),
        Column("job"),
        Column("planned (UTC)"),
        Column("decided", is_number=True),
        Column("subtasks", is_number=True),
    )
    rows = [
        [each["dag_id"], each["run_id"], each["job"], each["planned"] or "?", each["decided"], str(each["subtasks"])]
        for each in told
    ]
    show([Table(columns, rows)])
    return 0


def find_folders(run: str, exchange: str | None) -> list[JobFolder]:
    """The jobs of the run that a user names.

    Args:
        run: path or URI of a job's or a run's folder; or dag_id/run_id, dag_id/run_id/job, or dag_id for its newest
            run, with an exchange.
        exchange: its root; by default the one that this host's Airflow is configured with.

    Raises:
        ValueError: nothing is found; says where it was looked for.
    """
    if exchange is None and (found := _at_path(open_uri(run))):
        return found
    root = find_exchange(exchange)
    if root is None:
        raise ValueError(
            f"run {run!r}: no such folder of a run, and no exchange to look in; name the folder, or give dag_id/run_id "
            f"with --exchange (or set {VARIABLE})"
        )
    return _below(run, root)


def _at_path(path: ExchangePath) -> list[JobFolder]:
    """`path` is a job's folder, or that of a run with jobs in it."""
    try:
        folder = folder_of(path)
        if any(held.folder == folder for held in list_runs(folder.root, folder.dag_id, folder.run_id)):
            return [folder]
        run = folder_of(path / "job")
        return _in_order(list_runs(run.root, run.dag_id, run.run_id))
    except (ValueError, ExchangeError):
        return []


def _below(run: str, root: ExchangePath) -> list[JobFolder]:
    """Ids may hold a slash themselves, so every way to cut the name is tried."""
    parts = run.strip("/").split("/")
    for cut in range(1, len(parts)):
        dag_id, rest = "/".join(parts[:cut]), "/".join(parts[cut:])
        if found := list_runs(root, dag_id, rest):
            return _in_order(found)
        run_id, _, job = rest.rpartition("/")
        if run_id and (found := [held for held in list_runs(root, dag_id, run_id) if held.folder.job == job]):
            return _in_order(found)
    if found := list_runs(root, run):
        newest = found[0].folder
        return _in_order([held for held in found if held.folder.run_id == newest.run_id])
    raise ValueError(
        f"run {run!r}: not in the exchange {root}; expected dag_id/run_id, dag_id/run_id/job or a dag_id of what "
        f"`airflow-abs runs --exchange {root}` lists"
    )


def _in_order(held: list[HeldRun]) -> list[JobFolder]:
    return [each.folder for each in sorted(held, key=str)]


def _tell(held: HeldRun) -> dict[str, Any]:
    planned = datetime.fromtimestamp(held.planned, UTC).strftime("%Y-%m-%d %H:%M:%S") if held.planned else None
    ids = {"dag_id": held.folder.dag_id, "run_id": held.folder.run_id, "job": held.folder.job, "planned": planned}
    try:
        run = read_decisions(held.folder)
    except ExchangeError:
        return {**ids, "decided": "?", "subtasks": 0}
    subtasks = sum(len(region.subtasks) for region in run.regions)
    return {**ids, "decided": f"{run.decided}/{len(run.regions)}", "subtasks": subtasks}
