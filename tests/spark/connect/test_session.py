"""A pyspark session on an endpoint: for compiling only, closed properly, and quick to fail."""

from __future__ import annotations

import logging
import os
import socket
import time

import pytest

from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.operations import EVERY_SESSION, derive_id
from airflow_abs.spark.connect.session import is_gone, open_session
from airflow_abs.spark.errors import ConnectServerUnreachableError, VersionMismatchError


def test_a_dead_port_fails_within_seconds() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        started = time.monotonic()
        with pytest.raises(ConnectServerUnreachableError), open_session(ConnectEndpoint(*reserved.getsockname())):
            pass
    assert time.monotonic() - started < 30


@pytest.mark.spark
def test_another_major_release_than_the_servers_is_refused(
    connect_server: ConnectEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_abs.spark.connect.session.client_version", lambda: "5.0.0")
    with (
        pytest.raises(VersionMismatchError, match=r"runs Spark 4\.\d\.\d, this Airflow has pyspark 5\.0\.0"),
        open_session(connect_server),
    ):
        pass


@pytest.mark.spark
def test_within_it_pyspark_works_without_a_jvm_and_afterwards_nothing_is_left(connect_server: ConnectEndpoint) -> None:
    before = os.environ.get("SPARK_CONNECT_MODE_ENABLED")
    session_id = derive_id("session test", time.time_ns())
    config = {"spark.sql.shuffle.partitions": "3"}
    with open_session(connect_server, session_id=session_id, config=config) as session:
        from pyspark.sql import SparkSession
        from pyspark.sql.functions import col

        doubled = session.range(3).select((col("id") * 2).alias("twice"))
        assert [row.twice for row in doubled.collect()] == [0, 2, 4]
        assert session.conf.get("spark.sql.shuffle.partitions") == "3"
        assert {name: session.conf.get(name) for name in EVERY_SESSION} == EVERY_SESSION
        assert SparkSession.getActiveSession() is session
        assert session.session_id == session_id
    assert session.is_stopped
    assert SparkSession.getActiveSession() is None
    assert os.environ.get("SPARK_CONNECT_MODE_ENABLED") == before


@pytest.mark.spark
def test_an_error_of_pyspark_is_not_logged_with_its_java_stack(
    connect_server: ConnectEndpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    with open_session(connect_server) as session:
        from pyspark.errors import AnalysisException
        from pyspark.sql.functions import col

        with pytest.raises(AnalysisException):
            _ = session.range(1).select(col("nope")).schema
        with pytest.raises(AnalysisException):
            _ = session.sql("SELECT nope FROM range(1)").schema
    assert "JVM stacktrace" not in capfd.readouterr().err
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        assert logging.getLogger(name).level <= logging.CRITICAL


def test_a_session_that_is_gone_is_told_from_a_plan_that_spark_refuses() -> None:
    import grpc
    from pyspark.errors.exceptions.connect import AnalysisException, SparkConnectGrpcException

    gone = SparkConnectGrpcException("[INVALID_HANDLE.SESSION_CLOSED] ...", "INVALID_HANDLE.SESSION_CLOSED")
    away = SparkConnectGrpcException("no connection", grpc_status_code=grpc.StatusCode.UNAVAILABLE)
    refused = AnalysisException("[INTERNAL_ERROR] ...", "INTERNAL_ERROR")
    assert [is_gone(each) for each in (gone, away, refused, ValueError("else"))] == [True, True, False, False]
