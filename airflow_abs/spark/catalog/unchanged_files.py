"""Whether the files of a table are what `plan` listed: of kinds of table whose files may be replaced under their names.

Spark is asked, which reads them: size and time of the last change of each, before a subtask reads any and once it has
read them all. A file that was replaced meanwhile is found by the second look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.pinned import PinnedTable
from airflow_abs.exchange.storage.uris import with_authority
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.execute import execute_operation
from airflow_abs.spark.connect.operations import Operation
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.errors import InputLostError, SourceChangedError
from airflow_abs.spark.relations import read_files, sql_expression
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.subtask_spec import SubtaskSpec
from airflow_abs.spark.source_files import escape_path

_ADVICE = (
    "it was overwritten or deleted since. Clear plan and everything after it, and do not overwrite the table while a "
    "run reads it"
)
_COLUMNS = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
_WANTED = ("path", "length", "unix_millis(modificationTime)")


async def check_unchanged(
    connection: Connection, spec: SubtaskSpec, attempt: SubtaskAttempt, when: str
) -> list[Operation]:
    """Look at what a subtask reads of such tables.

    Args:
        when: ``before`` or ``after``: each look is one operation, however often it is asked for.

    Returns:
        The operations of it, which are to be released with the attempt's others.

    Raises:
        SourceChangedError: names the first file that is gone, or is another one.
        SparkOperationError: Spark did not tell.
    """
    operations = []
    for source in spec.region.sources:
        files = spec.reads.files[source.name]
        if source.table is None or not source.table.rewritable or not files:
            continue
        operation = Operation(
            session_id=attempt.session_id(spec.folder),
            operation_id=attempt.operation_id(spec.folder, f"{when} {source.name}"),
            plan=_look_at(files),
            tags=(attempt.tag(spec.folder),),
        )
        try:
            outcome = await execute_operation(connection, operation)
        except InputLostError as error:
            raise explain_lost(spec, error) or _lost(source.table, "a file", error) from error
        operations.append(operation)
        _compare(source.table, files, await asyncio.to_thread(_read_found, outcome.arrow_batches))
    return operations


def _look_at(files: Sequence[SourceFile]) -> bytes:
    """Of each its path, bytes and time; their content is not read."""
    proto = protos()
    listed = read_files([file.path for file in files], file_format="binaryFile", schema=_COLUMNS)
    # Else Spark would look for partitions in the names of their folders.
    listed.read.data_source.options["recursiveFileLookup"] = "true"
    columns = proto.Project(input=listed, expressions=map(sql_expression, _WANTED))
    plan: bytes = proto.Plan(root=proto.Relation(project=columns)).SerializeToString(deterministic=True)
    return plan


def _read_found(batches: Sequence[bytes]) -> dict[str, tuple[int, int]]:
    import pyarrow as pa

    found = {}
    for batch in batches:
        for path, size, changed in zip(*(pa.ipc.open_stream(batch).read_all().columns), strict=True):
            found[with_authority(path.as_py())] = (size.as_py(), changed.as_py())
    return found


def _compare(table: PinnedTable, files: Sequence[SourceFile], found: Mapping[str, tuple[int, int]]) -> None:
    for file in files:
        expected = (file.bytes, int(file.constants[-1] or 0))
        if (is_now := found.get(file.path)) != expected:
            told = "not there" if is_now is None else _describe(*is_now)
            raise SourceChangedError(
                f"table {table.table}: {file.path} is {told}, and was {_describe(*expected)} when plan listed it: "
                f"{_ADVICE}"
            )


def explain_lost(spec: SubtaskSpec, error: InputLostError) -> SourceChangedError | None:
    """What to tell of a file that Spark could not read, if it is one of such a table's."""
    named = {with_authority(path) for path in error.paths}
    for source in spec.region.sources:
        files = spec.reads.files[source.name] if source.table is not None and source.table.rewritable else ()
        lost = next((file.path for file in files if {file.path, escape_path(file.path)} & named), None)
        if source.table is not None and lost is not None:
            return _lost(source.table, lost, error)
    return None


def _lost(table: PinnedTable, what: str, error: InputLostError) -> SourceChangedError:
    told, _, rest = error.message.partition("\n")
    return SourceChangedError(
        f"table {table.table}: {what} is gone, or cannot be read any more, and was there when plan listed it: "
        f"{_ADVICE}. If nothing was overwritten, it is not a Parquet file (a partition may have another format), or "
        f"its column types differ from the table's: rewrite it ({told})\n{rest}",
        error_class=error.error_class,
        causes=error.causes,
    )


def _describe(size: int, changed: int) -> str:
    moment = datetime.fromtimestamp(changed / 1000, UTC).isoformat(timespec="milliseconds")
    return f"{size} bytes of {moment}"
