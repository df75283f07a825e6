"""The columns of a source, and the options by which all of its files are read with them.

Text has no types: those of CSV and JSON are given, or inferred from the first files by name, up to a bound. `plan` does
it once, for every subtask and recomputation of the run. What then does not fit fails: Spark would read it as NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.wording import format_bytes
from airflow_abs.exchange.errors import SourceNotFoundError
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.splits import list_splits
from airflow_abs.exchange.storage.locations import ExchangePath, locate

SAMPLE_FILES = 16
SAMPLE_BYTES = 16 * 2**20

_TEXT = ("csv", "json")
_CORRUPT = "_corrupt_record"
_NO_FILES = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA", "CANNOT_INFER_EMPTY_SCHEMA")
_NOT_BY_LINES = {"multiline": ("false",), "linesep": (), "encoding": ("utf-8", "utf8"), "charset": ("utf-8", "utf8")}
"""Options with which a file cannot be cut after a line of UTF-8, unless they have one of these values."""
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate", ".xz")

StructType = Any


def resolve_files(
    session: Any, who: str, files: Files, open_path: Callable[[str], ExchangePath]
) -> tuple[Files, StructType]:
    """A source with the options by which it is read, and its columns: declared, or read from its files.

    Raises:
        JobGraphError: there are no files to read them from, or none that may be read for it; a declared type that no
            file has.
    """
    files = replace(files, options={**_strict(files), **files.options})
    if files.schema is not None:
        return files, _declared(session, who, files.schema)
    from pyspark.errors import AnalysisException

    reader = session.read.format(files.format).options(**files.options)
    try:
        if files.format in _TEXT:
            reader = reader.schema(_infer(session, who, files, list_splits(files, open_path), open_path))
        return files, reader.load(files.uri).schema  # with the columns of partition folders, of all of them
    except SourceNotFoundError as error:
        raise _nothing_to_read(who, files) from error
    except AnalysisException as error:
        if error.getCondition() in _NO_FILES:
            raise _nothing_to_read(who, files) from error
        error.add_note(f"raised while the source of {who} was read for its schema: {files.path}")
        raise


def _declared(session: Any, who: str, schema: str) -> StructType:
    from pyspark.errors import PySparkException

    try:
        declared: StructType = session.createDataFrame([], schema).schema
    except PySparkException as error:
        if "char/varchar" not in str(error):  # for those Spark has an internal error
            raise
        raise JobGraphError(
            f"{who}: the schema of its source ({schema}) has a char or a varchar, but files hold strings of any "
            "length; write STRING instead"
        ) from error
    return declared


def _strict(files: Files) -> dict[str, str]:
    """Unless the author says otherwise: what does not fit the schema fails, and no header is passed over."""
    given = {name.lower() for name in files.options}
    if files.format not in _TEXT:
        return {}
    strict = {}
    if not given & {"mode", "columnnameofcorruptrecord"} and _CORRUPT not in (files.schema or ""):
        strict["mode"] = "FAILFAST"
    if files.format == "csv" and "enforceschema" not in given:  # Spark's default takes columns by position
        strict["enforceSchema"] = "false"
    return strict


def _infer(
    session: Any, who: str, files: Files, listed: Sequence[SourceFile], open_path: Callable[[str], ExchangePath]
) -> StructType:
    """From whole files as long as they are within the bounds; else from the lines at the beginning of the first."""
    if not listed:
        raise _nothing_to_read(who, files)
    reader = session.read.format(files.format).options(**files.options)
    sample = _first(listed)
    if sample:
        # All files lie in one place for this: partition columns come from all folders, not from those of a sample.
        named = reader.option("recursiveFileLookup", "true").option("__globPaths__", "false")
        return named.load([file.path for file in sample]).schema
    lines = [(line,) for line in _first_lines(who, files, listed[0], open_path)]
    text = session.createDataFrame(lines, "value STRING")
    return (reader.csv(text) if files.format == "csv" else reader.json(text)).schema


def _first(listed: Sequence[SourceFile]) -> list[SourceFile]:
    chosen: list[SourceFile] = []
    left = SAMPLE_BYTES
    for file in listed[:SAMPLE_FILES]:
        left -= file.bytes
        if left < 0:
            break
        chosen.append(file)
    return chosen


def _first_lines(who: str, files: Files, file: SourceFile, open_path: Callable[[str], ExchangePath]) -> list[str]:
    options = {name.lower(): str(value).lower() for name, value in files.options.items()}
    in_the_way = [name for name, allowed in _NOT_BY_LINES.items() if options.get(name) not in (None, *allowed)]
    if in_the_way or file.path.endswith(_COMPRESSED):
        why = f"with the option {in_the_way[0]}" if in_the_way else "compressed"
        raise JobGraphError(
            f"{who}: its source {files.path!r} ({files.format}) has no schema, and its first file "
            f"({file.path}, {format_bytes(file.bytes)}) is too large to infer one from: {why} only a whole file of at "
            f"most {format_bytes(SAMPLE_BYTES)} can be read for it; give Files(..., schema='...')"
        )
    location = locate(open_path(files.path))
    with location.fs.open(_path_in(location.path, file.path), "rb") as stream:
        data: bytes = stream.read(SAMPLE_BYTES)
    whole, _, _ = data.rpartition(b"\n")
    return (whole or data).decode("utf-8", "replace").splitlines()


def _path_in(root: str, file: str) -> str:
    """The name of a source's file for the file system of its folder: without scheme, and without Azure's account."""
    container, _, path = file.partition("://")[2].partition("/")
    name = f"{container.partition('@')[0]}/{path}".lstrip("/")
    return f"/{name}" if root.startswith("/") else name


def _nothing_to_read(who: str, files: Files) -> JobGraphError:
    return JobGraphError(
        f"{who}: its source {files.path!r} ({files.format}) matches no files to read a schema from; "
        "check the path and its date, or declare Files(..., schema='...') if the folder may be empty"
    )
