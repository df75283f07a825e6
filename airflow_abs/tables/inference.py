"""How much a run's tables hold, asked in `decide` (Flink's dynamic source inference, FLIP-379): the fan-out follows.

Each table is asked on a thread of its own, all at once, in a worker or in the triggerer. What
does not answer in time is left behind; its thread is a daemon's, which no process waits for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from threading import Thread
from time import monotonic
from typing import Any

from airflow_abs.core.decide.sources import inferred_number, size_splits
from airflow_abs.core.wording import format_count
from airflow_abs.exchange.pruning.pruning import Decisions
from airflow_abs.exchange.records.deciding import list_sources
from airflow_abs.exchange.records.plan import PlannedRegion, region_options
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.pinned import PinnedTable
from airflow_abs.exchange.sources.planned_source import vertex_of
from airflow_abs.exchange.sources.splits import ListedSource
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.declared import read_declared
from airflow_abs.tables.errors import TableError, first_line
from airflow_abs.tables.kinds import check_declared
from airflow_abs.tables.source import InferenceContext, Inferred, InfersFiles, InfersParallelism

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SourceInference:
    """Lists the sources of a run's regions, and asks those that are tables; one of the `ListSources`.

    Args:
        records: of the run.
        access: as in `TableSource.pin`.
        declared: the kinds of table that the DAG has.
    """

    records: RunRecords
    access: TableAccess
    declared: Collection[str]

    def __call__(self, region: PlannedRegion, before: Decisions) -> dict[str, ListedSource]:
        """Ask all of a region's tables at once, about the files that are left by what the regions `before` wrote.

        Raises:
            ExchangeError: see `list_sources`.
            TableError: a table's kind is none that the DAG declares, or cannot be loaded; an answer has a file that
                `plan` did not fix, or one twice.
        """
        listed = list_sources(self.records, self.access.open_path, region, before)
        tables = {source.name: source.table for source in region.sources if source.table and source.table.declared}
        until = monotonic() + self.records.plan.options.inference_timeout
        asked = {name: self._ask(region, table, listed[name]) for name, table in tables.items()}
        for name, answer in asked.items():
            listed[name] = self._take(name, tables[name], listed[name], answer, until)
        return listed

    def _ask(self, region: PlannedRegion, table: PinnedTable, listed: ListedSource) -> Future[Answer]:
        check_declared(table.table, table.declared["kind"], self.declared)
        options = region_options(self.records.plan, region)
        is_decided = options.parallelism is None and options.single_subtask_reason is None
        context = InferenceContext(
            pinned=table,
            files=listed.files,
            access=self.access,
            upper_bound=options.source_bound,
            target_bytes=options.target_bytes,
            slots=options.slots,
            data_interval=self.records.plan.data_interval,
            values=listed.values,
        )
        timeout = self.records.plan.options.inference_timeout
        return ask(read_declared(table.declared), context, timeout, with_parallelism=is_decided)

    def _take(
        self, name: str, table: PinnedTable, listed: ListedSource, answer: Future[Answer], until: float
    ) -> ListedSource:
        """The answer, or what there is instead of one, with a sentence that says which."""
        notes, files, parallelism = [], listed.files, None
        try:
            inferred, told = answer.result(max(0.0, until - monotonic()))
        except Exception as error:
            notes.append(_describe(error, self.records.plan.options.inference_timeout))
            log.warning("source %s (%s): %s; reading what plan fixed", name, table.label, notes[0])
        else:
            files = _among(table, listed.files, inferred.files)
            parallelism = _number(table, told)
            notes += [inferred.reason] if inferred.reason else []
            notes += [f"it asks for {format_count(parallelism, 'subtask')}"] if parallelism else []
        usual = self.records.plan.usual.get(vertex_of(name))
        sizes, size_from, what = size_splits([file.bytes for file in files], usual)
        if size_from != "source":
            files = [replace(file, bytes=size) for file, size in zip(files, sizes, strict=True)]
            notes = [*(notes or ["it does not know its size"]), *([what] if parallelism is None else [])]
        notes = [listed.note, *notes] if listed.note else notes
        note = ", ".join(notes) or None
        return replace(listed, files=files, size_from=size_from, note=note, parallelism=parallelism)


Answer = tuple[Inferred, Any]
"""What a source holds, and into how many subtasks it wants to be read: None if it leaves that to its bytes."""


def ask(source: object, context: InferenceContext, timeout: float, *, with_parallelism: bool = True) -> Future[Answer]:
    """Start to ask what it can answer, on a thread and an event loop of its own: it may block. What awaits is cancelled
    after `timeout` seconds, what blocks is left to itself."""
    answer: Future[Answer] = Future()

    async def infer() -> Answer:
        found = await source.infer(context) if isinstance(source, InfersFiles) else Inferred(context.files)
        if not with_parallelism or not isinstance(source, InfersParallelism):
            return found, None
        return found, await source.infer_parallelism(replace(context, files=found.files))

    def run() -> None:
        try:
            answer.set_result(asyncio.run(asyncio.wait_for(infer(), timeout)))
        except BaseException as error:
            answer.set_exception(error)

    if not isinstance(source, (InfersFiles, InfersParallelism)):
        answer.set_result((Inferred(context.files), None))
        return answer
    Thread(target=run, name=f"infer {context.pinned.table}", daemon=True).start()
    return answer


def _describe(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    return f"no answer ({type(error).__name__}: {first_line(error)})"


def _number(table: PinnedTable, told: Any) -> int | None:
    """The number of subtasks of an answer."""
    if told is None:
        return None
    if isinstance(told, bool) or not isinstance(told, int):
        raise TableError(
            f"table {table.table}: infer_parallelism() of its kind {table.declared['kind']!r} returned {told!r}; "
            "expected an integer, of 0 or less where it leaves the number to the bytes. Fix the table class, and clear "
            "this task"
        )
    return inferred_number(told)


def _among(table: PinnedTable, fixed: Sequence[SourceFile], told: Sequence[SourceFile]) -> list[SourceFile]:
    """The files of an answer, in the order of those that `plan` fixed."""
    by_path = {file.path: file for file in told}
    unknown = by_path.keys() - {file.path for file in fixed}
    if unknown or len(by_path) < len(told):
        what = f"{min(unknown)}, which is none of" if unknown else "a file twice, of"
        raise TableError(
            f"table {table.table}: infer() of its kind {table.declared['kind']!r} returned {what} the {len(fixed)} "
            "files that plan fixed; expected some of those, each once. Fix the table class, and clear this task"
        )
    return [replace(file, bytes=by_path[file.path].bytes) for file in fixed if file.path in by_path]
