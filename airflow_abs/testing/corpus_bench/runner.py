"""Runs the corpus: what is accepted as vertices of one job, at several numbers of subtasks, against plain Spark on the
whole tables."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobGraph, JobVertex, build_job_graph
from airflow_abs.core.settings import JobSettings, VertexOptions
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.declared_vertex import DeclaredVertex
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import VertexProgram, compile_vertices
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.inference.infer import infer_edges
from airflow_abs.spark.proof import UnsplittableError, prove_vertices
from airflow_abs.spark.run.attempt import release_sessions
from airflow_abs.testing.corpus_bench.entries import Entry
from airflow_abs.testing.corpus_bench.shown import operators_noted, reason_of
from airflow_abs.testing.corpus_bench.tables import build_tables
from airflow_abs.testing.job_run import JobRun
from airflow_abs.testing.rows import describe_difference
from airflow_abs.testing.tables import write_table

OPTIONS = JobSettings(
    target_bytes=64 * 1024 * 1024,
    max_parallelism=32,
    durability="always",
    share_tasks=False,
    chaining=False,
    hot_keys=False,
    unsplittable="refuse",
    slots=2,  # one subtask shuffles inside, several are coalesced: both ways are tried
)
PARALLELISMS = (1, 2, 7)
PLAIN = {
    # Few rows: what they cost is the stages and their tasks.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
_SIDE_BY_SIDE = 3


class CorpusError(RuntimeError):
    """An entry is wrong, not what it tries."""


class Outcome(StrEnum):
    """What became of an entry; the first that applies, over all numbers of subtasks."""

    FAILED = "failed in run"
    WRONG = "green but wrong"
    NEEDLESS = "refused needlessly"
    REFUSED = "refused"
    RIGHT = "accepted, right"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`detail` is the message of a refusal or failure, or what is wrong with the rows.

    `shown`: the operators of Spark's plan of what is accepted, such as ``SortMergeJoin Inner``; of what is refused the
    reason without its columns, such as ``refused: a join``.
    """

    entry: Entry
    outcome: Outcome
    detail: str = ""
    shown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Bench:
    """The tables as files, and a server. `spark_conf` is that of every vertex, `schemas` the columns of each table.

    Each use has a `job` of its own. `options` are those of what runs.
    """

    endpoint: ConnectEndpoint
    folder: Path
    schemas: Mapping[str, Any]
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    job: str = "corpus"
    options: JobSettings = OPTIONS

    @classmethod
    def prepare(cls, endpoint: ConnectEndpoint, folder: Path) -> Bench:
        tables = build_tables()
        for name, table in tables.items():
            write_table(table, folder / "tables" / name)
        with open_session(endpoint) as session:
            schemas = {name: session.read.parquet(f"file://{folder}/tables/{name}").schema for name in tables}
        return cls(endpoint, folder, schemas)

    def files(self, table: str) -> Files:
        """Its columns are declared: to infer them takes a Spark job each time."""
        columns = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in self.schemas[table])
        return Files(str(self.folder / "tables" / table), schema=columns)

    def expect(self, entry: Entry) -> Any:
        """Plain Spark's rows, in a session of its own: an entry may leave settings or views behind."""
        with open_session(self.endpoint, config=PLAIN) as session:
            frames = {
                name: session.read.schema(self.schemas[each.table]).parquet(self.files(each.table).uri)
                for name, each in entry.inputs.items()
            }
            return entry.transform(**frames).toArrow()

    def judge(self, entry: Entry) -> None:
        """Compile the entry alone, infer its edges if they are not said, and prove it.

        Raises:
            JobGraphError: it is refused.
        """
        graph, programs = self._declare([entry])
        with open_session(self.endpoint) as session:
            compiled = compile_vertices(session, graph, programs)
            inferred = infer_edges(session, graph, compiled, self._bytes_of, min_parallelism=entry.min_parallelism)
            prove_vertices(session, inferred.graph, inferred.compiled, min_parallelism=entry.min_parallelism)

    def plan(self, run_id: str, entries: Sequence[Entry]) -> JobRun:
        """One job of all these entries, each a vertex without a consumer."""
        graph, programs = self._declare(entries)
        folder = JobFolder(self.folder / "exchange", "proof", run_id, self.job)
        return JobRun.planned(self.endpoint, folder, graph, programs, self.options)

    def _bytes_of(self, table: str) -> int:
        return sum(file.stat().st_size for file in (self.folder / "tables" / table).iterdir())

    def _declare(self, entries: Sequence[Entry]) -> tuple[JobGraph, dict[str, VertexProgram]]:
        tables = sorted({each.table for entry in entries for each in entry.inputs.values() if each.partitioning})
        vertices = [JobVertex(name, has_source=True) for name in tables]
        vertices += [JobVertex(entry.name, has_source=entry.source is not None) for entry in entries]
        edges = [edge for entry in entries for edge in entry.edges(entry.name)]
        graph = build_job_graph(vertices, edges, OPTIONS.max_parallelism)
        programs = {name: VertexProgram(DeclaredVertex(name), source=self.files(name)) for name in tables}
        for entry in entries:
            files = self.files(entry.source) if entry.source is not None else None
            declared = DeclaredVertex(entry.name, options=VertexOptions(spark_conf=self.spark_conf))
            programs[entry.name] = VertexProgram(declared, _named(entry), files)
        return graph, programs


def run_corpus(
    bench: Bench, entries: Sequence[Entry], parallelisms: Sequence[int] = PARALLELISMS, *, with_refused: bool = True
) -> list[Verdict]:
    """The verdict on every entry, in their order.

    What should be refused is planned alone, what should be accepted together. `with_refused`: plain Spark has to run
    what is refused, too, though nothing is compared with its rows.

    Raises:
        CorpusError: plain Spark itself does not run an entry.
    """
    # Held open, so that pyspark stays in Connect mode.
    with open_session(bench.endpoint), _by_value(entries), operators_noted() as operators:
        doubtful = [entry for entry in entries if not entry.safe]
        found = zip(doubtful, _each(bench.judge, doubtful), strict=True)
        verdicts = {entry.name: _refused(entry, error) for entry, error in found if error is not None}
        planned = _plan_together(bench, entries, verdicts)
        accepted = [entry for entry in entries if entry.name not in verdicts]
        wanted = _expect(bench, entries if with_refused else accepted)
        right = (Verdict(each, Outcome.RIGHT, shown=operators.get(each.name, frozenset())) for each in accepted)
        verdicts |= {verdict.entry.name: verdict for verdict in right}
        if planned is not None:
            _run_accepted(bench, planned, accepted, wanted, parallelisms, verdicts)
    return [verdicts[entry.name] for entry in entries]


def run_whole(bench: Bench, entries: Sequence[Entry]) -> list[Verdict]:
    """The verdicts if what may not run in parts runs as one subtask."""
    bench = replace(bench, options=replace(bench.options, unsplittable="whole"))
    with open_session(bench.endpoint), _by_value(entries):
        found = zip(entries, _each(bench.judge, entries), strict=True)
        errors = {entry.name: (entry, error) for entry, error in found if error is not None}
        verdicts = {
            name: _refused(*each) for name, each in errors.items() if not isinstance(each[1], UnsplittableError)
        }
        planned = _plan_together(bench, entries, verdicts)
        accepted = [entry for entry in entries if entry.name not in verdicts]
        wanted = _expect(bench, accepted)
        verdicts |= {each.name: Verdict(each, Outcome.RIGHT) for each in accepted}
        if planned is not None:
            _run_accepted(bench, planned, accepted, wanted, (1,), verdicts)
    return [verdicts[entry.name] for entry in entries]


def run_spread(bench: Bench, entries: Sequence[Entry]) -> tuple[list[Verdict], int]:
    """The verdicts on what is accepted and has inputs that may be spread, each such input in a run of its own; and how
    many parts were read. What is hot is up to who calls this.
    """
    with open_session(bench.endpoint), _by_value(entries):
        verdicts: dict[str, Verdict] = {}
        planned = _plan_together(bench, [entry for entry in entries if entry.safe], verdicts)
        if planned is None:
            return [], 0
        may = {region.name for region in planned.plan.regions if region.splittable}
        spread = [entry for entry in entries if entry.name in may]
        wanted = _expect(bench, spread)
        verdicts = {entry.name: Verdict(entry, Outcome.RIGHT) for entry in spread}
        _run_tables(planned, {entry.name for entry in entries})
        number, parts = 0, 0
        while (run := planned.with_spread(f"spread {number}", number)) is not None:
            _run_and_compare(bench, run, f"with input {number} spread", spread, wanted, verdicts)
            parts += sum(
                bool(each.hot_part) for name in may & run.decisions.keys() for each in run.decisions[name].subtasks
            )
            number += 1
        return list(verdicts.values()), parts


def _plan_together(bench: Bench, entries: Sequence[Entry], verdicts: dict[str, Verdict]) -> JobRun | None:
    """All that have no verdict yet; those that are refused get one."""
    while left := [entry for entry in entries if entry.name not in verdicts]:
        with ThreadPoolExecutor(1) as alone:  # this thread's active session is another, and table functions ask for it
            try:
                return alone.submit(bench.plan, "together", left).result()
            except JobGraphError as error:
                named = next((entry for entry in left if f"vertex {entry.name!r}" in str(error)), None)
                if named is None:
                    raise
                verdicts[named.name] = _refused(named, error)
    return None


def _expect(bench: Bench, entries: Sequence[Entry]) -> dict[str, Any]:
    """Plain Spark's rows by entry."""
    rows = {entry.name: found for entry, found in zip(entries, _each(bench.expect, entries), strict=True)}
    broken = {name: found for name, found in rows.items() if _is_error(found)}
    if broken:
        raise CorpusError(f"plain Spark itself does not run {broken}; correct these entries")
    return rows


def _run_accepted(
    bench: Bench,
    planned: JobRun,
    accepted: Sequence[Entry],
    wanted: Mapping[str, Any],
    parallelisms: Sequence[int],
    verdicts: dict[str, Verdict],
) -> None:
    _run_tables(planned, wanted.keys())
    for parallelism in parallelisms:
        run = planned.at_parallelism(f"parallelism {parallelism}", parallelism)
        _run_and_compare(bench, run, f"at {parallelism}", accepted, wanted, verdicts)


def _run_tables(planned: JobRun, entries: Collection[str]) -> None:
    """Read once for all."""
    for region in planned.plan.regions:
        if region.name not in entries:
            asyncio.run(planned.run_region(region.name))


def _run_and_compare(
    bench: Bench,
    run: JobRun,
    where: str,
    accepted: Sequence[Entry],
    wanted: Mapping[str, Any],
    verdicts: dict[str, Verdict],
) -> None:
    """Run what is in the plan of a run, and note what is not right of it."""
    failed = asyncio.run(run.run_regions())
    with open_session(bench.endpoint) as session:
        found = run.read_vertices(session)
    asyncio.run(release_sessions(bench.endpoint, run.folder))
    for entry in accepted:
        if verdicts[entry.name].outcome is Outcome.RIGHT and (entry.name in found or entry.name in failed):
            verdicts[entry.name] = _compared(verdicts[entry.name], where, found, failed, wanted[entry.name])


def _compared(
    right: Verdict, where: str, found: Mapping[str, Any], failed: Mapping[str, Exception], wanted: Any
) -> Verdict:
    entry = right.entry
    if entry.name in failed:
        return replace(right, outcome=Outcome.FAILED, detail=f"{where}: {failed[entry.name]}")
    rows = found[entry.name][0]
    difference = entry.check(rows, wanted) if entry.check else describe_difference(rows, wanted)
    return replace(right, outcome=Outcome.WRONG, detail=f"{where}: {difference}") if difference else right


def _refused(entry: Entry, error: Exception) -> Verdict:
    if not isinstance(error, JobGraphError):
        return Verdict(entry, Outcome.FAILED, f"in plan: {type(error).__name__}: {error}")
    outcome = Outcome.NEEDLESS if entry.safe else Outcome.REFUSED
    return Verdict(entry, outcome, str(error), frozenset({f"refused: {reason_of(error)}"}))


def _each(work: Callable[[Entry], Any], entries: Iterable[Entry]) -> list[Any]:
    """What it gives or raises for each entry, some side by side."""

    def attempt(entry: Entry) -> Any:
        try:
            return work(entry)
        except Exception as error:
            return error

    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="corpus") as pool:
        return list(pool.map(attempt, entries))


def _is_error(found: Any) -> bool:
    return isinstance(found, Exception)


def _named(entry: Entry) -> Callable[..., Any]:
    """A vertex gets its own source under one name, or by position."""
    own = next((name for name, each in entry.inputs.items() if each.partitioning is None), None)
    if own is None:
        return entry.transform

    def transform(source: Any, **others: Any) -> Any:
        return entry.transform(**{own: source}, **others)

    transform.__module__ = entry.transform.__module__
    return transform


@contextmanager
def _by_value(entries: Iterable[Entry]) -> Iterator[None]:
    """For the whole time: threads that compile would take each other's registration away."""
    from pyspark import cloudpickle

    modules = [sys.modules[name] for name in sorted({entry.transform.__module__ for entry in entries})]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
