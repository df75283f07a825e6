"""Records of a whole run, who reads each of them, and how one is changed."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from airflow_abs.core.durability.strange_day import usual_bytes
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publication import read_commit
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.exchange.records.job_history import history_from_json, read_history, remember_run
from airflow_abs.exchange.records.manifest import read_manifest
from airflow_abs.exchange.records.plan import read_plan, region_options
from airflow_abs.exchange.records.recovery_claim import read_claim
from airflow_abs.exchange.records.server_record import read_server
from airflow_abs.exchange.records.slices import cut_slices, read_slice, write_slices
from airflow_abs.exchange.records.tries import read_try
from airflow_abs.exchange.runs.past_run import past_run
from airflow_abs.exchange.runs.recorded import recorded_job
from airflow_abs.exchange.runs.replayed import replay_run
from airflow_abs.exchange.runs.run_json import run_to_json
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.storage.whole_files import read_json
from airflow_abs.spark.errors import would_happen_again

WHOLE = Path(__file__).parent.parent / "runs" / "written_at_80fdde5"

Way = tuple[str | int, ...]


def use_plan(folder: JobFolder) -> None:
    plan = read_plan(folder)
    for region in plan.regions:
        region_options(plan, region)
        for entry in region.inputs:
            plan.region(entry.region).step(entry.result)
        for sink in region.sinks:
            region.step(sink.result)


def use_decision(folder: JobFolder) -> None:
    for region in ("orders", "enriched"):
        stored = read_decision(folder, region)
        stored.decision.describe()
        for subtask in stored.decision.subtasks:
            for source in stored.files:
                stored.files_of(subtask.index, source)


def use_slice(folder: JobFolder) -> None:
    region = read_plan(folder).region("enriched")
    found = read_slice(folder, region, 0, decision="91891a24334add9b")
    for files in found.rescaled.values():
        files.located(files.span)


def use_manifest(folder: JobFolder) -> None:
    manifest = read_manifest(folder, "orders", 0)
    for result in manifest.results.values():
        assert result.bytes >= 0
        assert result.rows >= 0


def use_history(folder: JobFolder) -> None:
    """Who runs reads it without an error, whatever it holds."""
    found = read_history(JobFolder(folder.root, folder.dag_id, "next", folder.job))
    usual_bytes(found)
    assert found == history_from_json(read_json(folder.history_path), where=str(folder.history_path))


READERS: dict[str, Callable[[JobFolder], object]] = {
    "exchange/dag/run/job/plan.json": use_plan,
    "exchange/dag/run/job/orders/decision.json": use_decision,
    "exchange/dag/run/job/enriched/subtask-0/slice.json": use_slice,
    "exchange/dag/run/job/enriched/decision.json": use_decision,
    "exchange/dag/run/job/orders/subtask-0/manifest.json": use_manifest,
    "exchange/dag/run/job/orders/subtask-0/try-1.json": lambda folder: read_try(folder, "orders", 0, 1),
    "exchange/dag/run/job/orders/subtask-0/recovery-1001.json": lambda folder: read_claim(folder, "orders", 0, 1001),
    "exchange/dag/run/job/server.json": read_server,
    "exchange/dag/_history/job.json": use_history,
    "mart/_airflow_abs_commit": lambda folder: read_commit(Path(str(folder.root)).parent / "mart"),
}
VALUES: list[Any] = [None, True, 0, -1, 7, 2.5, 10**30, "", "x", [], [1], {}, {"x": 1}, [[]], [{}]]
"""What takes the place of a value: something of every type, and of the bounds of numbers."""


def ways_into(value: Any, before: Way = ()) -> Iterator[Way]:
    """The way to everything in a record."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*before, key)
        yield from ways_into(entry, (*before, key))


def without(payload: dict[str, Any], way: Way) -> dict[str, Any]:
    changed, last = inside(payload, way)
    del last[way[-1]]
    return changed


def replaced(payload: dict[str, Any], way: Way, value: Any) -> dict[str, Any]:
    changed, last = inside(payload, way)
    last[way[-1]] = value
    return changed


def inside(payload: dict[str, Any], way: Way) -> tuple[dict[str, Any], Any]:
    changed = node = copy.deepcopy(payload)
    for key in way[:-1]:
        node = node[key]
    return changed, node


def copy_run(folder: Path) -> Path:
    """With a history and slices, which that version did not write."""
    root = Path(shutil.copytree(WHOLE, folder / "root"))
    folder = JobFolder(root / "exchange", "dag", "run", "job")
    remember_run(folder, past_run(read_run(folder), "2026-01-05", 1.0, would_happen_again))
    write_slices(folder, "enriched", cut_slices(read_decision(folder, "enriched")))
    return root


def error_of(use: Callable[[JobFolder], object], folder: JobFolder) -> ExchangeError | None:
    try:
        use(folder)
    except ExchangeError as error:
        return error
    return None


def view(folder: JobFolder) -> None:
    run_to_json(read_run(folder))


def decide_again(folder: JobFolder) -> None:
    """What a decision rests on may be readable and yet nothing that the core decides from; it says so itself."""
    run = read_run(folder)
    with suppress(InvalidValueError):
        replay_run(run)
    recorded_job(run)
