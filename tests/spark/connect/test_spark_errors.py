"""The errors of Spark operations survive every border: pickle, JSON, another process."""

from __future__ import annotations

import json
import pickle

import pytest

from airflow_abs.spark.errors import (
    Cause,
    ConnectAccessDeniedError,
    ConnectServerUnreachableError,
    InputLostError,
    OperationCancelledError,
    OperationTakenOverError,
    OperationTimeoutError,
    ResourcesError,
    SparkOperationError,
    SubtaskOutOfMemoryError,
    TransientSparkError,
    UserCodeError,
    VersionMismatchError,
)

KINDS = [
    SparkOperationError,
    UserCodeError,
    InputLostError,
    SubtaskOutOfMemoryError,
    ResourcesError,
    TransientSparkError,
    OperationTakenOverError,
    OperationTimeoutError,
    OperationCancelledError,
    ConnectServerUnreachableError,
    ConnectAccessDeniedError,
    VersionMismatchError,
]
CAUSES = (Cause("TASK_WRITE_FAILED", "outer"), Cause("java.io.IOException", "inner"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_survives_pickling_and_json(kind: type[SparkOperationError]) -> None:
    error = kind("ValueError: bad\nmore", error_class="A.B", causes=CAUSES)
    for copy in (
        pickle.loads(pickle.dumps(error)),  # noqa: S301
        SparkOperationError.from_json(json.loads(json.dumps(error.to_json()))),
    ):
        assert type(copy) is kind
        assert (copy.message, copy.error_class, copy.causes) == ("ValueError: bad\nmore", "A.B", CAUSES)
        assert str(copy) == "ValueError: bad\nmore"
        assert copy == error
        assert hash(copy) == hash(error)


def test_json_has_this_shape() -> None:
    assert UserCodeError("m", error_class="C", causes=CAUSES[:1]).to_json() == {
        "type": "UserCodeError",
        "error_class": "C",
        "message": "m",
        "causes": [{"class": "TASK_WRITE_FAILED", "message": "outer"}],
    }


@pytest.mark.parametrize("payload", [{}, {"type": "SystemExit", "error_class": "", "message": "", "causes": []}])
def test_json_of_something_else_is_refused(payload: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"not an error of a Spark operation: found .*, expected type, error_class"):
        SparkOperationError.from_json(payload)


def test_kinds_that_go_away_by_themselves_are_restartable() -> None:
    assert {kind.__name__ for kind in KINDS if kind.restartable} == {
        "InputLostError",
        "SubtaskOutOfMemoryError",
        "ResourcesError",
        "TransientSparkError",
        "OperationTakenOverError",
        "OperationTimeoutError",
        "ConnectServerUnreachableError",
    }


def test_context_comes_after_the_users_own_words() -> None:
    error = UserCodeError("ValueError: bad\nTraceback", error_class="PYTHON_EXCEPTION", causes=CAUSES)
    where = error.with_context("vertex 'orders', subtask 3, try 2, subpartitions [16, 24)")
    assert type(where) is UserCodeError
    assert where.causes == CAUSES
    assert str(where) == "ValueError: bad\n  vertex 'orders', subtask 3, try 2, subpartitions [16, 24)\nTraceback"


def test_a_lost_input_names_its_files() -> None:
    error = InputLostError(
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///x/run/part-0.parquet.  SQLSTATE: K",
        causes=(
            Cause("java.lang.RuntimeException", "file:/x/run/part-0.parquet is not a Parquet file. Expected magic"),
            Cause("java.io.FileNotFoundException", "No such file: s3a://lake/a%20b/part-1.parquet, really"),
        ),
    )
    assert error.paths == (
        "file:///x/run/part-0.parquet",
        "file:/x/run/part-0.parquet",
        "s3a://lake/a%20b/part-1.parquet",
    )
