"""What a table must be able to do to be the source of a vertex."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from airflow_abs.core.pruning.value_ranges import Span
from airflow_abs.exchange.errors import SourceNotFoundError
from airflow_abs.exchange.incremental.new_files import NewFiles
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.partitions import partition_of, partition_values
from airflow_abs.exchange.sources.pinned import PinnedTable
from airflow_abs.exchange.sources.splits import list_splits
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.tables.access import TableAccess


@dataclass(frozen=True, slots=True)
class Pin:
    """One version of a table, fixed by `plan`.

    Args:
        schema: Spark's JSON of the columns that the transform sees.
        pinned: what is recorded of it.
        files: the files that are read, in the order in which they are numbered as splits; 0 bytes each
            if their sizes are unknown.
        spans: by column that the source is pruned by, its least and greatest value in each of the files, as
            `comparable` makes them; None where they are not known, empty where it is NULL in all rows.
        partitioned_by: the columns by which its files are partitioned, directly or through a transform of their values.
        tables: ids, as in `TargetTable.parts`, of all tables whose rows it holds, if it may be a view, a query, or some
            partitions.
    """

    schema: str
    pinned: PinnedTable
    files: tuple[SourceFile, ...]
    spans: Mapping[str, Sequence[Span | None]] = field(default_factory=dict)
    partitioned_by: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()

    @property
    def ids(self) -> frozenset[str]:
        """Of all tables whose rows are read."""
        return frozenset(filter(None, (self.pinned.uuid, *self.tables)))


def spans_by_column(
    columns: Iterable[str], of_files: Sequence[Sequence[Span | None]]
) -> dict[str, Sequence[Span | None]]:
    """`Pin.spans` from those of each file, in the order of the columns."""
    return {column: [spans[number] for spans in of_files] for number, column in enumerate(columns)}


@dataclass(frozen=True, slots=True)
class InferenceContext:
    """What is known when a source is asked how much there is to read, and into how many subtasks it should be.

    Args:
        pinned, files: what `plan` has fixed; the answer is some or all of the files.
        access: as in `TableSource.pin`.
        upper_bound: most subtasks that it should ask for: `default_source_parallelism`, else the job's maximum, but no
            more than the vertex's own.
        target_bytes: what one of them should read.
        slots: how many of them run at once; None if unknown.
        data_interval: of the run, in ISO form; None if it has none.
        values: by column what it must be for a row to be needed today, as ranges from least to most (NULL is in none);
            columns that are not named may be anything.
    """

    pinned: PinnedTable
    files: Sequence[SourceFile]
    access: TableAccess
    upper_bound: int
    target_bytes: int
    slots: int | None = None
    data_interval: tuple[str, str] | None = None
    values: Mapping[str, Sequence[tuple[Any, Any]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inferred:
    """What a source holds for a run.

    Args:
        files: those that are read, among the ones that `plan` fixed, with their sizes; 0 bytes each if unknown.
        reason: what was left out and why, such as ``412 of 1,823 files left by dates.d``; it becomes a part of the
            decision's.
    """

    files: Sequence[SourceFile]
    reason: str | None = None


class TableSource(Protocol):
    """A table of any kind. It is declared as a DAG file is parsed, and must not do any I/O before `pin`.

    Its class stands at the top of a module that workers can import, and takes as keywords what `to_json` returned.
    """

    def to_json(self) -> dict[str, Any]:
        """The declaration with its templates, and its `kind`."""

    def pin(self, access: TableAccess) -> Pin:
        """Ask the table what it holds, once, in `plan`. May call outside systems and take seconds.

        Args:
            access: what the task lets it reach: Airflow's connections, paths, the catalog of the job's Spark.

        Raises:
            TableError: what is wrong, and what to do.
        """


@runtime_checkable
class InfersFiles(Protocol):
    """A table that knows better in `decide` than in `plan` how much there is to read, when all is known that the run
    finds out before. It is asked on a thread of its own, may call outside systems, and has `inference_timeout` seconds;
    without an answer, also if it raises, what `plan` fixed is read, and is as large as `plan` said, as on earlier days,
    or it is unknown."""

    async def infer(self, context: InferenceContext) -> Inferred:
        """What there is to read: so many subtasks its bytes need."""


@runtime_checkable
class InfersParallelism(Protocol):
    """A table that knows better than its bytes into how many subtasks it should be read (Flink's
    `DynamicParallelismInference`). It is asked like `InfersFiles`, and after it."""

    async def infer_parallelism(self, context: InferenceContext) -> int:
        """The number of subtasks; 0 or less leaves it to the bytes.

        It may exceed `context.upper_bound`, but not the vertex's maximum or the number of files. A `parallelism` that
        the author has set is kept, and nobody asks; beside other inputs the number is a minimum.

        Args:
            context: its files are those that are left.
        """


@runtime_checkable
class LandedSource(Protocol):
    """A table that does not keep the version that a run reads: `plan` copies its rows into the exchange, and the copy
    is what every subtask, retry and recomputation reads. As little I/O before `land` as before `TableSource.pin`."""

    def to_json(self) -> dict[str, Any]:
        """As `TableSource.to_json`."""

    def land(self, access: TableAccess, folder: ExchangePath) -> Pin:
        """Copy the rows, all of one moment, into new files.

        Args:
            access: as in `TableSource.pin`.
            folder: of the run, in the exchange; it is not there yet, and goes with the run.

        Raises:
            TableError: what is wrong, and what to do.
            ExchangeUnreachableError: the folder cannot be written to.
        """


Given = Files | Pin | NewFiles
"""What a vertex reads in a run: files that are listed when they are needed, or such as `plan` has fixed."""


def splits_of(source: Given, open_path: Callable[[str], ExchangePath]) -> Sequence[SourceFile]:
    """What a source holds today: files are listed, unless they were fixed.

    Raises:
        ExchangeError: see `list_splits`.
    """
    return list_splits(source, open_path) if isinstance(source, Files) else source.files


def partition_columns(source: Given, open_path: Callable[[str], ExchangePath]) -> tuple[str, ...]:
    """The columns by which a source is partitioned today; none if its files do not exist yet.

    Raises:
        ExchangeError: the storage refuses to list.
    """
    if isinstance(source, Pin):
        return source.partitioned_by
    try:
        first = next(iter(splits_of(source, open_path)), None)
    except SourceNotFoundError:
        return ()
    files = source if isinstance(source, Files) else source.declared
    return tuple(partition_values(partition_of(files, first.path) or "")) if first is not None else ()
