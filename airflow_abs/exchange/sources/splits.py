"""The splits of a source: its files on the day, and how Spark is told to read some of them as if it read them all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_abs.core.decide.region_inputs import SizeFrom, SourceInput
from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.glob_pattern import is_glob
from airflow_abs.exchange.sources.listing import SourceFile, list_source_files
from airflow_abs.exchange.sources.partitions import partition_of, partition_values
from airflow_abs.exchange.storage.locations import ExchangePath


def list_splits(files: Files, open_path: Callable[[str], ExchangePath]) -> list[SourceFile]:
    """The files that Spark would read under the source's path and options, one split each.

    Raises:
        ExchangeError: the path matches nothing, or partition folders lie below a glob, where Spark could not be told
            what to take for a partition column.
    """
    listed = list_source_files(
        open_path(files.path),
        name_pattern=files.name_pattern,
        recursive=files.is_recursive,
        may_be_missing=files.missing == "empty",
        may_have_lost=files.incremental,  # what was read may be cleaned away
    )
    if is_glob(files.path) and not files.is_recursive and "basePath" not in files.options:
        depth = files.uri.rstrip("/").count("/")
        for file in listed:
            folders = file.path.split("/")[depth + 1 : -1]
            if any("=" in folder for folder in folders):
                raise ExchangeError(
                    f"source {files.path!r}: {file.path} lies in a partition folder ({'/'.join(folders)}) "
                    "below a glob; "
                    "name the folder above the partitions without a glob, or set options={'basePath': ...}"
                )
    return listed


@dataclass(frozen=True, slots=True)
class ListedSource:
    """What is read of a source on the day; of a source in partition folders, of how many of how many. `note`,
    `size_from` and `parallelism` as in `SourceInput`. `values` are those that rows must have, by column, as ranges."""

    files: Sequence[SourceFile]
    partitions_read: tuple[int, int] | None = None
    note: str | None = None
    size_from: SizeFrom = "source"
    values: Mapping[str, Sequence[tuple[int | str, int | str]]] = field(default_factory=dict)
    parallelism: int | None = None

    def as_input(self, name: str) -> SourceInput:
        """What a decision needs of it."""
        sizes = [file.bytes for file in self.files]
        return SourceInput(name, sizes, self.partitions_read, self.note, self.size_from, self.parallelism)


def list_source(files: Files, left_out: Collection[str], open_path: Callable[[str], ExchangePath]) -> ListedSource:
    """The files outside of the partitions that are left out; errors as `list_splits`."""
    return leave_out(files, left_out, list_splits(files, open_path))


def leave_out(files: Files, left_out: Collection[str], listed: Sequence[SourceFile]) -> ListedSource:
    """Of these files of a source those outside of the partitions that are left out."""
    if not left_out:
        return ListedSource(listed)
    without = frozenset(left_out)
    partitions = [partition_of(files, file.path) for file in listed]
    read = [file for file, partition in zip(listed, partitions, strict=True) if partition not in without]
    return ListedSource(read, (len(set(partitions) - without), len(set(partitions))))


def reads_in_order(files: Files, columns: Sequence[str], splits: Sequence[SourceFile]) -> bool:
    """Whether Spark's reader gives the source's columns in this order: it puts those of partition folders last."""
    if not splits or (files.base_path is None and not _has_partitions(files, splits)):
        return True
    partition = partition_of(files, splits[0].path)
    if partition is None:
        return False
    names = list(partition_values(partition))
    return list(columns[len(columns) - len(names) :]) == names


def reader_options(files: Files, splits: Sequence[SourceFile]) -> Mapping[str, str]:
    """Options by which some files of a folder are read like the whole folder: its partition columns included."""
    return {"basePath": files.uri, **files.options} if _has_partitions(files, splits) else files.options


def _has_partitions(files: Files, splits: Sequence[SourceFile]) -> bool:
    """Whether folders below the source's path are columns for Spark."""
    is_one_file = any(split.path == files.uri for split in splits)
    return not (is_glob(files.path) or files.is_recursive or is_one_file)
