"""What Spark's catalog refuses, and what only a lost server leaves without an answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from airflow.sdk.definitions.retry_policy import RetryAction
from pyspark.errors.exceptions.connect import AnalysisException, SparkConnectGrpcException

from airflow_abs.operators.restart_policy import TransientErrorPolicy
from airflow_abs.spark.catalog.session_catalog import SessionCatalog
from airflow_abs.tables.catalog.statements import StatementError, refused


def catalog_that_raises(error: Exception) -> SessionCatalog:
    def answer(*_: Any) -> Any:
        raise error

    return SessionCatalog(SimpleNamespace(sql=answer, table=answer))


@pytest.mark.parametrize(
    "lost",
    [
        SparkConnectGrpcException("no connection", grpc_status_code=grpc.StatusCode.UNAVAILABLE),
        SparkConnectGrpcException("[INVALID_HANDLE.SESSION_CLOSED] ...", "INVALID_HANDLE.SESSION_CLOSED"),
    ],
    ids=["killed", "restarted"],
)
def test_a_task_whose_server_was_lost_under_a_statement_tries_again(lost: SparkConnectGrpcException) -> None:
    """A killed server in the middle of `plan` or `commit` once failed the run at its first try."""
    catalog = catalog_that_raises(lost)
    for use in (lambda: catalog.run("ALTER TABLE t"), lambda: catalog.schema("t")):
        with pytest.raises(SparkConnectGrpcException) as caught:
            use()
        assert TransientErrorPolicy().evaluate(caught.value, 1, 3).action is RetryAction.RETRY


def test_a_statement_that_spark_refuses_is_not_tried_again() -> None:
    catalog = catalog_that_raises(AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] no t", "TABLE_OR_VIEW_NOT_FOUND"))
    with pytest.raises(StatementError) as caught:
        catalog.run("ALTER TABLE t")
    assert caught.value.condition == "TABLE_OR_VIEW_NOT_FOUND"
    error = refused("t", "ALTER TABLE t", caught.value)
    assert TransientErrorPolicy().evaluate(error, 1, 3).action is RetryAction.FAIL
