"""Publish a sink: every file that the region's subtasks committed for it, all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from airflow_abs.core.expect.verdicts import Verdict
from airflow_abs.exchange.incremental.new_files import begin_publication, end_publication
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publication import publish, staged_files
from airflow_abs.exchange.publish.published_rows import remember_published
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.exchange.records.manifest import read_manifests
from airflow_abs.exchange.records.plan import JobPlan, PlannedSink
from airflow_abs.exchange.storage.locations import ExchangePath


def publish_region(
    folder: JobFolder, plan: JobPlan, region: str, open_path: Callable[[str], ExchangePath]
) -> dict[str, dict[str, Any]]:
    """Publish all sinks of a region; files of incremental sources that they rest on count as read by that, and not
    before. A repetition changes nothing.

    Returns:
        by vertex as `publish_sink`.

    Raises:
        ExchangeError: see `publish_sink`, `begin_publication`.
    """
    taken = [source for each in plan.regions for source in each.sources if source.taken is not None]
    published = {}
    for sink in plan.region(region).sinks:
        rests_on = [source for source in taken if source.taken is not None and sink.vertex in source.taken.sinks]
        for source in rests_on:
            begin_publication(folder, source, open_path)
        published[sink.vertex] = publish_sink(folder, region, sink, open_path)
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
    stored = read_decision(folder, region)
    manifests = read_manifests(folder, region, stored.decision.parallelism, decision=stored.digest)
    publication = publish(
        open_path(sink.files.path),
        staged_files(folder, manifests, sink.result),
        mode=sink.files.mode,
        identity=f"{folder.dag_id}/{folder.run_id}/{folder.job}/{sink.vertex}",
    )
    return asdict(publication)


def remember_rows(folder: JobFolder, verdicts: Iterable[Verdict]) -> None:
    """For the next run: how many rows this one has published of a sink whose row count is looked at.

    Raises:
        ExchangeUnreachableError: they cannot be stored.
    """
    for verdict in verdicts:
        if verdict.expectation.is_row_count:
            remember_published(folder, verdict.vertex, verdict.rows)
