"""Functions import the job's `py_files`, in plan, in every subtask, and where lost output is recomputed."""

from __future__ import annotations

import asyncio
import shutil
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.execute import execute_operation
from airflow_abs.spark.connect.operations import Operation, derive_id, release_session
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.execution import AttemptExecution
from tests.job_runner import plan_run, program_of, rows

if TYPE_CHECKING:
    from airflow_abs.spark.run.work import AttemptWork

pytestmark = pytest.mark.spark

VERTICES = [JobVertex("priced", has_source=True), JobVertex("summed", has_sink=True)]
EDGES = [JobEdge("priced", "summed", "priced", Partitioning.HASH, ("k",))]


def price(source: Any) -> Any:
    from pyspark.sql import functions as sf
    from shipped_zip.prices import PRICE  # read while it is compiled

    @sf.udf("bigint")
    def times(x):  # type: ignore[no-untyped-def]
        from shipped_module import one
        from shipped_zip.prices import price_of

        return price_of(x) * one()

    return source.select("k", times("x").alias("y"), sf.lit(PRICE).alias("price"))


def add_up(priced: Any) -> Any:
    from pyspark.sql import functions as sf

    @sf.udf("bigint")
    def shifted(y):  # type: ignore[no-untyped-def]
        from shipped_wheel import shift

        return shift(y)

    return priced.groupBy("k").agg(sf.sum("y").alias("y")).select("k", shifted("y").alias("y"))


@pytest.fixture
def py_files(tmp_path: Path) -> list[str]:
    """A module, a package in a zip file, and a wheel."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    (folder / "shipped_module.py").write_text("def one():\n    return 1\n")
    padding = "# " + "x" * 100_000  # several messages
    with zipfile.ZipFile(folder / "prices.zip", "w") as file:
        file.writestr("shipped_zip/__init__.py", "")
        file.writestr("shipped_zip/prices.py", f"PRICE = 7\n\n\ndef price_of(x):\n    return PRICE * x\n{padding}")
    with zipfile.ZipFile(folder / "shipped_wheel-1.0-py3-none-any.whl", "w") as file:
        file.writestr("shipped_wheel.py", "def shift(y):\n    return y + 1000\n")
    return [str(path) for path in sorted(folder.iterdir())]


def plan(server: ConnectEndpoint, tmp_path: Path, py_files: list[str]) -> Any:
    lake = tmp_path / "lake"
    lake.mkdir()
    for number in range(3):
        pq.write_table(pa.table({"k": [number, 9], "x": [number, 1]}), lake / f"{number}.parquet")
    programs = [
        program_of("priced", price, {}, Files(str(lake))),
        program_of("summed", add_up, {}, sink=Files(str(tmp_path / "out"))),
    ]
    options = {"target_bytes": 1, "py_files": py_files}
    return plan_run(server, tmp_path / "exchange", VERTICES, EDGES, programs, **options)


def test_they_are_on_the_path_of_every_session_whatever_becomes_of_the_files(
    connect_server: ConnectEndpoint, tmp_path: Path, py_files: list[str]
) -> None:
    job = plan(connect_server, tmp_path, py_files)
    assert [file.name for file in job.plan.py_files] == [Path(path).name for path in py_files]
    assert not {name for name in sys.modules if name.startswith("shipped_")}
    assert not [path for path in sys.path if "airflow-abs-py-" in path]
    shutil.rmtree(tmp_path / "libraries")
    asyncio.run(job.run_region("priced"))
    assert job.decisions["priced"].parallelism == 3
    for file in job.folder.result_path("priced", 1, 1, job.plan.region("priced").steps[0].result).glob("*.parquet"):
        file.unlink()
    asyncio.run(job.run_region("summed"))  # which recomputes what is lost, in a session of its own
    job.commit()
    found = rows(f"SELECT k, y FROM read_parquet('{tmp_path}/out/*.parquet')")
    assert found == [(0, 1000), (1, 1007), (2, 1014), (9, 1021)]


@pytest.mark.sample
def test_a_stored_file_that_was_altered_is_not_sent(
    connect_server: ConnectEndpoint, tmp_path: Path, py_files: list[str]
) -> None:
    job = plan(connect_server, tmp_path, py_files)
    job.folder.py_file_path(job.plan.py_files[0].digest).write_bytes(b"")
    failed = asyncio.run(job.run_regions())
    assert isinstance(failed["priced"], DamagedFileError)
    assert str(failed["priced"]).endswith(
        f"the content of {job.plan.py_files[0].name} does not have the checksum that plan.json names; it was altered: "
        "clear the plan task and everything after it"
    )


@pytest.mark.sample
def test_a_file_that_is_not_there_is_named_by_plan(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    with pytest.raises(JobGraphError) as caught:
        plan(connect_server, tmp_path, [str(tmp_path / "nowhere.py")])
    assert str(caught.value) == (
        f"job 'job': {tmp_path}/nowhere.py of py_files is not there; expected a file that the worker of `plan` can "
        "read, by its absolute path or beside the DAG file"
    )
    assert not JobFolder(tmp_path / "exchange", "dag", "run", "job").plan_path.exists()


def test_subtasks_that_send_them_to_one_session_at_once_find_all_of_them(
    connect_server: ConnectEndpoint, session: Any, tmp_path: Path, py_files: list[str]
) -> None:
    job = plan(connect_server, tmp_path, py_files)
    spec = SimpleNamespace(plan=job.plan, folder=job.folder)

    def shift(number):  # type: ignore[no-untyped-def]
        from shipped_wheel import shift

        return shift(number)

    from pyspark.sql import functions as sf

    frame = session.range(1).select(sf.udf(shift, "bigint")("id"))
    message = frame._plan.to_proto(session.client).SerializeToString()

    async def send_and_call(connection: Connection, session_id: str, number: int) -> None:
        work = SimpleNamespace(spec=spec, attempt=SubtaskAttempt("summed", number, 1, ""))
        await AttemptExecution(connection, cast("AttemptWork", work))._send_py_files(session_id)
        await execute_operation(connection, Operation(session_id, derive_id(session_id, number), message))

    async def send() -> None:
        async with open_connection(connect_server) as connection:
            for number in range(8):
                session_id = derive_id("sent at once", str(tmp_path), number)
                await asyncio.gather(*(send_and_call(connection, session_id, each) for each in range(6)))
                await release_session(connection, session_id)

    asyncio.run(send())
