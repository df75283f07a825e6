from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from upath import UPath

from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.whole_files import check_writable
from airflow_abs.spark import session_capacity
from airflow_abs.spark.compile.contracts import set_conf
from airflow_abs.spark.connect.capacity import read_capacity, splits_of_range
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.planning import check_shared, log_portions
from airflow_abs.spark.proof import Proof
from airflow_abs.spark.session_capacity import read_slots

pytestmark = [pytest.mark.spark, pytest.mark.sample]


def folder(root: Any) -> JobFolder:
    return JobFolder(root, "dag", "run", "job")


def test_an_exchange_that_both_sides_reach_is_left_as_it_was(session: Any, tmp_path: Path) -> None:
    check_writable(folder(tmp_path).path)
    check_shared(session, folder(tmp_path), 300.0)
    assert list(folder(tmp_path).path.iterdir()) == []


def test_spark_needs_no_success_file_to_be_seen(session: Any, tmp_path: Path) -> None:
    with set_conf(session, "probe", {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}):
        check_shared(session, folder(tmp_path), 300.0)
        session.range(1).write.parquet(str(tmp_path / "unmarked"))
    assert not (tmp_path / "unmarked" / "_SUCCESS").exists()


def test_an_exchange_that_airflow_cannot_write_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExchangeUnreachableError, match=r"Airflow cannot write a file there .*check the path"):
        check_writable(folder(tmp_path / "file").path)


def test_an_exchange_that_spark_cannot_write_is_named(session: Any) -> None:
    with pytest.raises(ExchangeUnreachableError) as caught:
        check_shared(session, folder(UPath("memory://exchange")), 300.0)
    said = str(caught.value)
    assert said.startswith("the Spark server cannot write to the exchange at memory://exchange/dag/run/job: ")
    assert said.endswith("expected a path that Airflow and Spark both reach and may write to")


def test_a_cluster_that_runs_nothing_is_told_of_while_plan_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_capacity, "seconds_between_looks", lambda timeout: 0.01)
    told = threading.Event()

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    session = Mock()  # its write ends when somebody has been told that it does not
    session.client.explain_string.return_value = "*(1) Range (0, 1048576, step=1, splits=8)"
    write = session.range.return_value.coalesce.return_value.write.mode.return_value.options.return_value
    write.parquet.side_effect = lambda path: told.wait(60)
    handler = Listening()
    session_capacity.log.addHandler(handler)
    try:
        with pytest.raises(ExchangeUnreachableError, match="Airflow does not see it"):
            check_shared(session, folder(tmp_path), 300.0)
    finally:
        session_capacity.log.removeHandler(handler)
    assert told.is_set()
    assert "plan wants one Spark task, which writes to the exchange; " in caplog.records[0].getMessage()
    assert "other operations have all cores, or the cluster has no executor" in caplog.records[0].getMessage()


def test_the_slots_of_a_local_server_are_its_cores(session: Any) -> None:
    assert read_slots(session) == 2


def test_a_trigger_learns_the_same_without_a_dataframe(connect_server: ConnectEndpoint) -> None:
    async def ask() -> int:
        async with open_connection(connect_server) as connection:
            return await read_capacity(connection, str(uuid.uuid4()))

    assert asyncio.run(ask()) == 2


def test_a_plan_that_shows_no_splits_tells_nothing() -> None:
    assert splits_of_range("*(1) Range (0, 1048576, step=1, splits=8)") == 8
    assert splits_of_range("LocalTableScan") is None


def test_a_function_over_partitions_that_nobody_promises_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    functions = ("TRANSFORM", "mapInPandas()")
    with caplog.at_level(logging.INFO):
        log_portions([Proof("cleaned", None, (), portions=functions), Proof("counted", None, ())])
    assert [record.getMessage() for record in caplog.records] == [
        "vertex 'cleaned': the rows of TRANSFORM and mapInPandas() arrive in batches that neither plain Spark nor a "
        "subtask guarantees, which is fine if it treats them one by one; if it needs a key's rows together, put "
        "repartition(key) before it"
    ]
