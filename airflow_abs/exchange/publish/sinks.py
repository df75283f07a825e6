"""Publish a sink: every file that the region's subtasks committed for it, all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from airflow_abs.core.expect.verdicts import Verdict
from airflow_abs.exchange.incremental.new_files import begin_publication, end_publication
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publication import StagedFile, publish, staged_files
from airflow_abs.exchange.publish.published_rows import remember_published
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.exchange.records.manifest import read_manifests
from airflow_abs.exchange.records.plan import JobPlan, PlannedSink
from airflow_abs.exchange.storage.locations import ExchangePath


def publish_region(
    folder: JobFolder,
    plan: JobPlan,
    region: str,
    open_path: Callable[[str], ExchangePath],
    to_table: Callable[[JobFolder, str, PlannedSink], dict[str, Any]],
) -> dict[str, dict[str, Any]]:
    """Publish all sinks of a region; files of incremental sources that they rest on count as read by that, and not
    before. A repetition changes nothing.

    Args:
        folder: of the job.
        plan: of the run.
        region: whose.
        open_path: turns a sink's path into one that can be written.
        to_table: publishes a sink that is a table, as `publish_sink` does others.

    Returns:
        by vertex as `publish_sink`.

    Raises:
        ExchangeError: see `publish_sink`, `begin_publication`; what `to_table` raises.
    """
    taken = [source for each in plan.regions for source in each.sources if source.taken is not None]
    published = {}
    for sink in plan.region(region).sinks:
        rests_on = [source for source in taken if source.taken is not None and sink.vertex in source.taken.sinks]
        for source in rests_on:
            begin_publication(folder, source, open_path)
        if sink.table is None:
            published[sink.vertex] = publish_sink(folder, region, sink, open_path)
        else:
            published[sink.vertex] = to_table(folder, region, sink)
        for source in rests_on:
            end_publication(folder, source, sink.vertex)
    return published


def publish_sink(
    folder: JobFolder, region: str, sink: PlannedSink, open_path: Callable[[str], ExchangePath]
) -> dict[str, Any]:
    """Publish what all subtasks of the region's decision wrote for one sink; a repetition changes nothing.

    Returns:
        the `Publication` as plain values: target, identity, files, rows, bytes, changed, replaced.

    Raises:
        MissingFileError: a subtask has not committed.
        CommitError: see `publish`.
    """
    if sink.files is None:
        raise ValueError(f"sink of {sink.vertex}: the plan has no folder for it")
    publication = publish(
        open_path(sink.files.path),
        staged_of(folder, region, sink),
        mode=sink.files.mode,
        identity=identity_of(folder, sink),
    )
    return asdict(publication)


def staged_of(folder: JobFolder, region: str, sink: PlannedSink) -> list[StagedFile]:
    """The files that all subtasks of the region's decision wrote for one sink.

    Raises:
        MissingFileError: a subtask has not committed.
    """
    stored = read_decision(folder, region)
    manifests = read_manifests(folder, region, stored.decision.parallelism, decision=stored.digest)
    return staged_files(folder, manifests, sink.result)


def identity_of(folder: JobFolder, sink: PlannedSink) -> str:
    """The name of the run and the sink, the same in every try."""
    return f"{folder.dag_id}/{folder.run_id}/{folder.job}/{sink.vertex}"


def remember_rows(folder: JobFolder, verdicts: Iterable[Verdict]) -> None:
    """For the next run: how many rows this one has published of a sink whose row count is looked at.

    Raises:
        ExchangeUnreachableError: they cannot be stored.
    """
    for verdict in verdicts:
        if verdict.expectation.is_row_count:
            remember_published(folder, verdict.vertex, verdict.rows)
