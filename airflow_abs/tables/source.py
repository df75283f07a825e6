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
        pinned: the record of this version.
        files: the files to read, in the order of their split numbers; 0 bytes each if their sizes are unknown.
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
    """What a source knows when it says how much to read, and in how many subtasks.

    Args:
        pinned, files: what `plan` fixed; the answer is some or all of the files.
        access: as in `TableSource.pin`.
        upper_bound: the most subtasks to ask for: `default_source_parallelism`, else the job's maximum, but not more
            than the vertex's own.
        target_bytes: bytes that one subtask should read.
        slots: how many subtasks run at once; None if unknown.
        data_interval: of the run, in ISO form; None if it has none.
        values: the values that a row must have to be needed today, by column, as ranges from least to most (NULL is in
            none); other columns are not restricted.
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
        files: the files to read, of those that `plan` fixed, with their sizes; 0 bytes each if unknown.
        reason: what was left out and why, such as ``412 of 1,823 files left by dates.d``, for the decision's reason.
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
        """Fix what this run reads, once, in `plan`. May call outside systems and take seconds.

        Args:
            access: what the task lets it reach: Airflow's connections, paths, the catalog of the job's Spark.

        Raises:
            TableError: what is wrong, and what to do.
        """


@runtime_checkable
class InfersFiles(Protocol):
    """A table that knows better in `decide` than in `plan` how much there is to read. It is asked on a thread of its
    own, may call outside systems, and has `inference_timeout` seconds. If it does not answer, or raises, the run reads
    what `plan` fixed, with the size from `plan` or from earlier days, if known."""

    async def infer(self, context: InferenceContext) -> Inferred:
        """What to read; its bytes decide the number of subtasks."""


@runtime_checkable
class InfersParallelism(Protocol):
    """A table that decides itself how many subtasks read it (Flink's `DynamicParallelismInference`). It is asked like
    `InfersFiles`, and after it."""

    async def infer_parallelism(self, context: InferenceContext) -> int:
        """The number of subtasks; 0 or less leaves it to the bytes.

        It may exceed `context.upper_bound`, but not the vertex's maximum or the number of files. It is not called if
        the author has set `parallelism`; beside other inputs the number is a minimum.

        Args:
            context: with the files that are left.
        """


@runtime_checkable
class LandedSource(Protocol):
    """A table that keeps no versions: `plan` copies its rows into the exchange, and every subtask, retry and
    recomputation reads the copy. It must not do any I/O before `land`."""

    def to_json(self) -> dict[str, Any]:
        """As `TableSource.to_json`."""

    def land(self, access: TableAccess, folder: ExchangePath) -> Pin:
        """Copy the rows, all of one moment, into new files.

        Args:
            access: as in `TableSource.pin`.
            folder: a folder of the run in the exchange; it does not exist yet, and is deleted with the run.

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
