"""The processes of the store suite: runs that publish, a reader, `gc`. Each is the package's own code on an S3 server.

A run has the Airflow side of the real thing, on a store: its decisions, slices, manifests, recoveries and its
publication. In the place of Spark, whose side needs a connector, it reads and writes the Parquet files itself.
"""

from __future__ import annotations

import io
import itertools
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.settings import JobSettings
from airflow_abs.exchange.errors import ExchangeError, MissingFileError
from airflow_abs.exchange.paths import JobFolder, escape
from airflow_abs.exchange.publish.object_store import StoreCommit
from airflow_abs.exchange.publish.publication import read_commit
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.record import CommitMode, CommitRecord, staged_files
from airflow_abs.exchange.records.deciding import decide_and_store, list_sources
from airflow_abs.exchange.records.decisions import StoredDecision
from airflow_abs.exchange.records.manifest import Manifest, read_manifest, read_manifests, write_manifest
from airflow_abs.exchange.records.plan import JobPlan, PlannedInput, PlannedRegion, PlannedStep
from airflow_abs.exchange.records.recovery_claim import claim_recovery, end_claim
from airflow_abs.exchange.records.reports import read_reports
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.results.measuring import measure_result
from airflow_abs.exchange.runs.cleaning import delete_expired, find_expired, release_job
from airflow_abs.exchange.runs.root_marker import mark_root
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.planned_source import PlannedSource
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import read_bytes, write_atomic, write_json
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.inputs import InputCheck, LostResults, files_read, still_whole
from airflow_abs.spark.run.subtask_spec import SubtaskSpec

PRODUCERS, CONSUMERS, SUBPARTITIONS = 6, 3, 12  # more producers than are asked one by one
LEASE_SECONDS = 3.0
EXPIRES_SECONDS = 4.0
TRIES, PAUSE_SECONDS = 60, 0.3
Rows = list[tuple[int, int]]
"""(subpartition, sum of its amounts): what a run publishes, 12 of them."""


@dataclass(frozen=True, slots=True)
class Store:
    """Where everything is. In `local`, a folder of this host, the suite and its processes leave each other notes:
    which runs are alive, which have published, when to stop."""

    url: str
    bucket: str
    local: Path
    key: str = "k"
    secret: str = "s"

    def path(self, key: str) -> UPath:
        return UPath(f"s3://{self.bucket}/{key}", key=self.key, secret=self.secret, endpoint_url=self.url)

    @property
    def exchange(self) -> UPath:
        return self.path("exchange")

    def folder(self, run: str) -> JobFolder:
        return JobFolder(self.exchange, "dag", run, "job")

    def note(self, kind: str, run: str) -> Path:
        return self.local / f"{kind}-{escape(run)}"


def rows_of(run: str) -> Rows:
    """What a run publishes."""
    totals = dict.fromkeys(range(SUBPARTITIONS), 0)
    for index in range(PRODUCERS):
        for subpartition, amount in made(run, index):
            totals[subpartition] += amount
    return sorted(totals.items())


def made(run: str, index: int) -> Rows:
    """What a producer writes, sorted by subpartition."""
    seed = sum(run.encode()) * 31 + index * 7
    return [(part, (seed + part * 13) % 97 + number) for part in range(SUBPARTITIONS) for number in range(20)]


def identity(run: str) -> str:
    return f"dag/{run}/job/total"


def take_part(store: Store, run: str, target: str, mode: CommitMode, first: int) -> None:
    """A run from its plan to its release, tried again as Airflow would; `first` is the number of its first try."""
    for number in range(first, first + TRIES):
        try:
            _Try(store, run, number).to_its_end(target, mode)
        except ExchangeError as error:
            print(f"{run}, try {number}: {error}", file=sys.stderr, flush=True)
            time.sleep(PAUSE_SECONDS)
        else:
            return
    os._exit(4)


@dataclass(slots=True)
class _Try:
    store: Store
    run: str
    number: int

    @property
    def folder(self) -> JobFolder:
        return self.store.folder(self.run)

    def to_its_end(self, target: str, mode: CommitMode) -> None:
        published = self.store.note("published", self.run)
        if not published.exists():
            plan = self._plan()
            self._decide(plan, "orders")
            for index in range(PRODUCERS):
                self._produce(plan, index)
            stored = self._decide(plan, "total")
            for index in range(CONSUMERS):
                self._consume(plan, stored, index)
            manifests = read_manifests(self.folder, "total", CONSUMERS, decision=stored.digest)
            staged = staged_files(self.folder, manifests, "total.sink")
            place = locate(self.store.path(target))
            commit = StoreCommit(place, Publisher(identity(self.run)), lambda step: None, lease_seconds=LEASE_SECONDS)
            commit.publish(staged, mode)
            published.touch()
        release_job(self.folder)

    def _plan(self) -> JobPlan:
        mark_root(self.folder.root)
        source = PlannedSource("orders.source", "s0", Files(f"s3://{self.store.bucket}/lake/orders"), "{}")
        reads = PlannedInput("total.orders", "i0", "orders", "orders.hash", Partitioning.HASH, ("id",))
        orders, total = _step("orders.hash", SUBPARTITIONS), _step("total.sink")
        regions = (
            PlannedRegion("orders", ("orders",), (source,), (), (orders,), (), PRODUCERS, SUBPARTITIONS, None),
            PlannedRegion("total", ("total",), (), (reads,), (total,), (), CONSUMERS, SUBPARTITIONS, None),
        )
        options = JobSettings(target_bytes=1000, max_parallelism=SUBPARTITIONS)
        plan = JobPlan(f"plan of {self.run}", regions, options, 2, "4.2.0")
        write_json(self.folder.plan_path, plan.to_json())
        return plan

    def _decide(self, plan: JobPlan, region: str) -> StoredDecision:
        records = RunRecords(self.folder)
        reports = {entry.region: read_reports(records, entry.region) for entry in plan.region(region).inputs}
        return decide_and_store(records, region, reports, partial(list_sources, records, self._open))

    def _open(self, uri: str) -> ExchangePath:
        return self.store.path(uri.partition(f"{self.store.bucket}/")[2])

    def _produce(self, plan: JobPlan, index: int) -> None:
        decision = _digest(self.folder, "orders")
        try:
            read_manifest(self.folder, "orders", index, decision=decision)
        except MissingFileError:
            self._write(plan, "orders", index, self.number, decision, made(self.run, index))

    def _consume(self, plan: JobPlan, stored: StoredDecision, index: int) -> None:
        attempt = SubtaskAttempt("total", index, self.number, stored.digest)
        spec = SubtaskSpec.load(self.folder, attempt)
        check = InputCheck(spec)
        for _ in range(8):
            inputs, lost = check.look()
            for each in lost:
                self._recover(plan, each, f"{attempt}")
            if lost:
                continue
            files = files_read(spec, inputs)
            found: Rows = []
            unread = [path for path in (self.folder.file_path(file.path) for file in files) if not _read(path, found)]
            if unread:
                check.suspect([str(path) for path in unread])
            elif still_whole(self.folder, files):
                span = spec.subpartitions or ()
                totals = [(part, sum(amount for own, amount in found if own == part)) for part in span]
                self._write(plan, "total", index, self.number, stored.digest, totals)
                return
        raise ExchangeError(f"{attempt}: input was lost again and again")

    def _recover(self, plan: JobPlan, lost: LostResults, reader: str) -> None:
        before = lost.manifest.attempt if lost.manifest else self.number
        claimed = claim_recovery(
            self.folder, lost.region, lost.index,
            decision=lost.decision, owner=f"{self.run} {reader}", lost_attempt=before, now=time.time(),
        )  # fmt: skip
        if claimed is None:
            time.sleep(PAUSE_SECONDS)
            return
        self._write(plan, lost.region, lost.index, claimed.claim.attempt, lost.decision, made(self.run, lost.index))
        end_claim(self.folder, claimed.claim, 1)

    def _write(self, plan: JobPlan, region: str, index: int, attempt: int, decision: str, rows: Rows) -> None:
        step = plan.region(region).steps[0]
        path = self.folder.result_path(region, index, attempt, step.result)
        write_atomic(path / "part-0.parquet", _parquet(rows, numbered=step.is_numbered))
        result = measure_result(self.folder, path, step)
        write_manifest(self.folder, Manifest(region, index, attempt, decision, 1.0, {step.result: result}))


def read_all_the_time(store: Store, target: str, runs: Sequence[str], log: Path) -> None:
    """A reader of the newest publication: it sees one run's output, whole (appended ones: each whole)."""
    for _ in itertools.count():
        if (store.local / "stop").exists():
            return
        try:
            if problem := look_at(store, target, runs):
                log.write_text(problem)
                os._exit(3)
        except ExchangeError:
            time.sleep(PAUSE_SECONDS)


def look_at(store: Store, target: str, runs: Sequence[str]) -> str:
    """What is wrong with what is published; "" if it is right.

    Raises:
        ExchangeError: the store does not answer.
    """
    record = _record(store, target)
    try:
        found = {
            entry.identity: _content(store, target, [file.name for file in entry.files]) for entry in record.entries
        }
    except MissingFileError as error:
        return "" if _record(store, target) != record else f"the newest record names a file that is gone: {error}"
    expected = {identity(run): rows_of(run) for run in runs}
    wrong = [name for name, rows in found.items() if rows != expected[name]]
    return f"{wrong[0]} is published with other rows: {found[wrong[0]]}" if wrong else ""


def _record(store: Store, target: str) -> CommitRecord:
    return read_commit(store.path(target)) or CommitRecord()


def _content(store: Store, target: str, names: Sequence[str]) -> Rows:
    return sorted(row for name in names for row in _rows(read_bytes(store.path(f"{target}/{name}"))))


def clean_all_the_time(store: Store) -> None:
    """`gc`, again and again, with an age after which real runs would still be young."""

    def is_alive(dag: str, run: str) -> bool:
        return (store.local / f"alive-{run}").exists()

    while not (store.local / "stop").exists():
        try:
            list(delete_expired(find_expired(store.exchange, EXPIRES_SECONDS, time.time(), is_alive), is_alive))
        except ExchangeError:
            time.sleep(PAUSE_SECONDS)
        time.sleep(0.1)


def _digest(folder: JobFolder, region: str) -> str:
    from airflow_abs.exchange.records.decisions import read_decision_and_digest

    return read_decision_and_digest(folder, region)[1]


def _step(result: str, subpartitions: int = 1) -> PlannedStep:
    return PlannedStep(result, "{}", "parquet", {}, subpartitions, shuffles=False)


def _parquet(rows: Rows, *, numbered: bool) -> bytes:
    name = "__subpartition" if numbered else "part"
    table = pa.table({name: pa.array([row[0] for row in rows], pa.int32()), "amount": [row[1] for row in rows]})
    sink = io.BytesIO()
    pq.write_table(table, sink, write_page_index=True, write_page_checksum=True)
    return sink.getvalue()


def _read(path: ExchangePath, into: Rows) -> bool:
    """As Spark, which checks pages: False if the file cannot be read."""
    try:
        into.extend(_rows(read_bytes(path)))
    except (pa.ArrowInvalid, OSError, MissingFileError):
        return False
    return True


def _rows(data: bytes) -> Rows:
    table = pq.read_table(io.BytesIO(data), page_checksum_verification=True)
    return [tuple(row.values()) for row in table.to_pylist()]  # type: ignore[misc]
