"""Real failures of a real server: each gets its kind, its error class, and a first line that a person can use."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from types import FunctionType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_abs.spark.connect.abilities import PYTHON_ERROR_CLASSES, Abilities, release_number
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.execute import execute_operation
from airflow_abs.spark.connect.operations import Operation, derive_id, interrupt_operation
from airflow_abs.spark.errors import (
    InputLostError,
    OperationCancelledError,
    SparkOperationError,
    SubtaskOutOfMemoryError,
    TransientSparkError,
    UserCodeError,
)
from testbed.environments import server_release
from tests.spark.connect_plans import query, read_parquet, sleep, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.sample]


def fail(endpoint: ConnectEndpoint, plan: bytes, session_id: str | None = None) -> SparkOperationError:
    """The error that executing the plan ends in, after a trip through JSON as from a trigger to a worker."""

    async def run() -> SparkOperationError:
        async with open_connection(endpoint) as connection:
            operation = Operation(session_id or derive_id("failures"), str(uuid.uuid4()), plan)
            with pytest.raises(SparkOperationError) as caught:
                await execute_operation(connection, operation, timeout=300)
            return caught.value

    return SparkOperationError.from_json(asyncio.run(run()).to_json())


def first_line(error: SparkOperationError) -> str:
    return str(error).splitlines()[0]


@pytest.fixture
def parquet_file(tmp_path: Path) -> Path:
    file = tmp_path / "part-0.parquet"
    pq.write_table(pa.table({"id": pa.array(range(10_000), pa.int64())}), file)
    return file


@pytest.mark.parametrize(
    ("sql", "error_class", "start"),
    [
        (
            "SELECT nope FROM range(3)",
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `nope` cannot be",
        ),
        (
            "SELECT CAST(concat('x', id) AS INT) AS n FROM range(0, 9, 1, 2)",
            "CAST_INVALID_INPUT",
            """[CAST_INVALID_INPUT] The value 'x""",
        ),
        ("SELECT 1 / (id - 5) AS n FROM range(0, 9, 1, 2)", "DIVIDE_BY_ZERO", "[DIVIDE_BY_ZERO] Division by zero."),
        ("SELEC 1", "PARSE_SYNTAX_ERROR", "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'"),
        ("SELECT string(raise_error('my own words')) AS n", "USER_RAISED_EXCEPTION", "my own words"),
        ("SELECT * FROM no_such_table", "TABLE_OR_VIEW_NOT_FOUND", "[TABLE_OR_VIEW_NOT_FOUND] The table or view"),
    ],
)
@pytest.mark.parametrize("writing", [False, True], ids=["read", "write"])
def test_a_users_mistake(
    sql: str, error_class: str, start: str, writing: bool, connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    error = fail(connect_server, write_parquet(sql, tmp_path / "out") if writing else query(sql))
    assert type(error) is UserCodeError
    assert error.error_class == error_class
    assert first_line(error).startswith(start)
    assert error.causes[0].error_class == error_class
    assert not error.restartable


def test_an_output_that_exists_is_not_overwritten(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    error = fail(connect_server, write_parquet("SELECT 1 AS n", tmp_path))
    assert (type(error), error.error_class) == (UserCodeError, "PATH_ALREADY_EXISTS")


def boom(number: int) -> str:
    raise ValueError(f"bad customer {number}")


def exhaust(_number: int) -> str:
    raise MemoryError


def vanish(_number: int) -> str:
    import os

    os._exit(9)


@pytest.mark.parametrize(
    ("function", "kind", "error_class", "line"),
    [
        (boom, UserCodeError, "PYTHON_EXCEPTION", "ValueError: bad customer 7"),
        (exhaust, SubtaskOutOfMemoryError, "PYTHON_EXCEPTION", "MemoryError"),
        (vanish, TransientSparkError, "", "Python worker exited unexpectedly (crashed)."),
    ],
)
def test_python_in_a_udf(
    function: FunctionType,
    kind: type[SparkOperationError],
    error_class: str,
    line: str,
    connect_server: ConnectEndpoint,
    session: Any,
) -> None:
    # A closure travels by value; a function of this module would be looked for on the server by name.
    from pyspark.sql.functions import udf

    by_value = FunctionType(function.__code__, {"__name__": "__main__"}, function.__name__)
    frame = session.range(7, 8, 1, 1).select(udf(by_value, "string")("id"))
    plan = frame._plan.to_proto(session.client).SerializeToString()
    error = fail(connect_server, plan, session.session_id)
    has_classes = Abilities.of_release(server_release()).has(PYTHON_ERROR_CLASSES)
    assert (type(error), error.error_class) == (kind, error_class if has_classes else "")
    assert first_line(error).startswith(line)


def test_memory_that_runs_out_in_a_task_leaves_the_server_alive(connect_server: ConnectEndpoint) -> None:
    error = fail(connect_server, query("SELECT sum(size(sequence(1, 400000000 + id))) FROM range(0, 2, 1, 2)"))
    assert type(error) is SubtaskOutOfMemoryError
    assert first_line(error) == "Java heap space"
    again = fail(connect_server, query("SELECT nope"))
    assert type(again) is UserCodeError


def test_a_file_that_is_gone_when_it_is_planned(connect_server: ConnectEndpoint, parquet_file: Path) -> None:
    parquet_file.unlink()
    error = fail(connect_server, read_parquet("id LONG", parquet_file))
    assert type(error) is InputLostError
    assert error.error_class == "PATH_NOT_FOUND"
    assert error.paths == (f"file:{parquet_file}",)


def test_a_file_that_goes_after_it_was_planned(
    connect_server: ConnectEndpoint, parquet_file: Path, session: Any
) -> None:
    # The server keeps the plan of a read in its session, with the files that it listed.
    frame = session.read.schema("id LONG").parquet(str(parquet_file))
    plan = frame._plan.to_proto(session.client).SerializeToString()
    assert frame.count() == 10_000
    parquet_file.unlink()
    error = fail(connect_server, plan, session.session_id)
    assert type(error) is InputLostError
    assert f"file:{parquet_file}" in error.paths
    if release_number(server_release()) < (4, 1):  # it plans such a read again
        assert error.error_class == "PATH_NOT_FOUND"
        return
    assert error.error_class == "FAILED_READ_FILE.FILE_NOT_EXIST"
    assert error.causes[-1].error_class == "java.io.FileNotFoundException"


@pytest.mark.parametrize("damage", ["truncated", "garbled"])
def test_a_file_that_is_damaged(damage: str, connect_server: ConnectEndpoint, parquet_file: Path) -> None:
    content = parquet_file.read_bytes()
    match damage:
        case "truncated":
            parquet_file.write_bytes(content[: len(content) // 2])
        case _:
            parquet_file.write_bytes(b"PAR1" + bytes(range(256)) * 10 + b"PAR1")
    error = fail(connect_server, read_parquet("id LONG", parquet_file))
    assert type(error) is InputLostError
    assert error.error_class == "FAILED_READ_FILE.NO_HINT"
    assert f"file://{parquet_file}" in error.paths


def test_a_file_cut_to_nothing_is_silently_no_rows_for_spark(
    connect_server: ConnectEndpoint, parquet_file: Path
) -> None:
    # Why readers compare the sizes in the manifest with those of the files before they let Spark read.
    parquet_file.write_bytes(b"")

    async def run() -> int:
        async with open_connection(connect_server) as connection:
            plan = read_parquet("id LONG", parquet_file)
            outcome = await execute_operation(connection, Operation(derive_id("failures"), str(uuid.uuid4()), plan))
            return sum(pa.ipc.open_stream(batch).read_all().num_rows for batch in outcome.arrow_batches)

    assert asyncio.run(run()) == 0


def test_a_session_that_was_closed(connect_server: ConnectEndpoint) -> None:
    from airflow_abs.spark.connect.session import open_session

    with open_session(connect_server) as session:
        session_id = session.session_id
        assert session.range(3).count() == 3
    # pyspark closes it for good
    error = fail(connect_server, query("SELECT 1"), session_id)
    assert (type(error), error.error_class) == (TransientSparkError, "INVALID_HANDLE.SESSION_CLOSED")


def test_somebody_interrupts(connect_server: ConnectEndpoint) -> None:
    async def run() -> SparkOperationError:
        async with open_connection(connect_server) as connection:
            operation = Operation(derive_id("failures"), str(uuid.uuid4()), sleep(60))
            running = asyncio.Event()
            listener = asyncio.create_task(
                execute_operation(connection, operation, on_progress=lambda _progress: running.set())
            )
            await asyncio.wait_for(running.wait(), 200)
            await interrupt_operation(connection, operation.session_id, operation.operation_id)
            with pytest.raises(SparkOperationError) as caught:
                await asyncio.wait_for(listener, 20)
            return caught.value

    error = asyncio.run(run())
    assert (type(error), error.error_class) == (OperationCancelledError, "OPERATION_CANCELED")
