"""The splits of a source: its files on the day, and how Spark is told to read some of them as if it read them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.glob_pattern import is_glob
from airflow_abs.exchange.sources.listing import SourceFile, list_source_files
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
    )
    if is_glob(files.path) and not files.is_recursive and "basePath" not in files.options:
        depth = files.uri.rstrip("/").count("/")
        for file in listed:
            folders = file.path.split("/")[depth + 1 : -1]
            if any("=" in folder for folder in folders):
                raise ExchangeError(
                    f"source {files.path!r}: {file.path} lies in a partition folder ({'/'.join(folders)}) "
                    "below a glob; "
                    "name the folder above the partitions without a glob, or say options={'basePath': ...}"
                )
    return listed


def reader_options(files: Files, splits: Sequence[SourceFile]) -> Mapping[str, str]:
    """Options by which some files of a folder are read like the whole folder: its partition columns included."""
    is_one_file = any(split.path == files.uri for split in splits)
    if is_glob(files.path) or files.is_recursive or is_one_file:
        return files.options
    return {"basePath": files.uri, **files.options}
