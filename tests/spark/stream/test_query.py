"""What Spark says of a query that failed, taken apart."""

from __future__ import annotations

import json

import pytest

from airflow_abs.core.streaming.failures import QueryFailure
from airflow_abs.spark.stream.query import FilesRead, StreamProgress, failure_of

BEGIN = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
END = """
=== Streaming Query ===
Identifier: q [id = 1, runId = 2]
Current Committed Offsets: {}
Current Available Offsets: {FileStreamSource[file:/in]: {"logOffset":3}}

Current State: ACTIVE"""


def test_an_error_of_the_authors_code_is_not_restarted() -> None:
    message = f"{BEGIN}[DIVIDE_BY_ZERO] Division by zero.{END}"
    said = f"{BEGIN}[DIVIDE_BY_ZERO] Division by zero."
    offsets = 'FileStreamSource[file:/in]: {"logOffset":3}'
    assert failure_of(message, 8) == QueryFailure(said, False, f"{{{offsets}}}", 8, "DIVIDE_BY_ZERO")


TIMED_OUT = "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment."


@pytest.mark.parametrize(
    ("message", "trace", "is_away"),
    [
        (f"{TIMED_OUT} Call: describeTopics", "", True),
        ("Failed to create new KafkaAdminClient", "at x\nCaused by: No resolvable bootstrap urls given in x", True),
        ("Job aborted due to stage failure: Cannot fetch record for offset 7 in 120000 milliseconds", "", True),
        ("java.net.ConnectException: Connection refused", "", True),
        ("[FAILED_READ_FILE.NO_HINT] Encountered error", "Caused by: java.net.SocketTimeoutException: x", True),
        ("[FAILED_READ_FILE.NO_HINT] Encountered error", "Caused by: java.lang.RuntimeException: not a Parquet", False),
        ("Job aborted due to stage failure: ExecutorLostFailure", "\tat java.net.ConnectException", False),
        ("[KAFKA_DATA_LOSS.X] Some data may have been lost", "", False),
    ],
)
def test_a_source_or_store_that_does_not_answer_is_told_from_rows_that_fail(
    message: str, trace: str, is_away: bool
) -> None:
    failure = failure_of(f"{BEGIN}{message}{END}", 8, trace)
    assert (failure.is_away, failure.restartable) == (is_away, "DATA_LOSS" not in message)


def test_the_root_of_a_failure_is_told_with_it() -> None:
    trace = "x.QueryException: no client\n\tat a.b\nCaused by: x.Kafka: c\nCaused by: x.Config: too small\n"
    assert failure_of("no client", 8, trace).message == "no client; caused by x.Config: too small"
    assert failure_of("no client: x.Config: too small", 8, trace).message == "no client: x.Config: too small"


def test_what_may_pass_is_restarted() -> None:
    assert failure_of(f"{BEGIN}Job aborted due to stage failure: ExecutorLostFailure{END}").restartable
    assert failure_of(f"{BEGIN}No space left on device").restartable
    assert failure_of("the query has ended").restartable
    state = "[CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT] Error writing state store files. SQLSTATE: 58030"
    assert failure_of(f"{BEGIN}{state}{END}").restartable


def told(**fields: object) -> str:
    """What Spark 4.2 says of a batch."""
    known = {"batchId": 4, "timestamp": "2026-01-01T00:00:10.500Z", "batchDuration": 1500}
    return json.dumps({**known, "durationMs": {"addBatch": 1400}, **fields})


def test_progress_adds_up_sources_and_state() -> None:
    text = told(
        observedMetrics={"airflow_abs_rows_out": {"values": [6], "schema": {"type": "struct"}}},
        sources=[
            {"numInputRows": 10, "startOffset": '{"logOffset":2}', "endOffset": '{"logOffset":4}'},
            {"numInputRows": 5, "startOffset": None, "endOffset": '{"logOffset":0}'},
            {"numInputRows": 0, "startOffset": 7, "endOffset": "eight"},
        ],
        stateOperators=[{"numRowsTotal": 7, "memoryUsedBytes": 1000}, {"numRowsTotal": 1, "memoryUsedBytes": 24}],
    )
    # 1767225600 is the first second of 2026; the batch began 10.5 s later and took 1.5 s
    ended = 1767225612.0
    files = (FilesRead(0, 3, 4), FilesRead(1, 0, 0))
    assert StreamProgress.from_spark(text) == StreamProgress(4, 15, 1.5, 8, 1024, ended, 6, files)


def test_a_batch_that_read_no_new_file_names_none() -> None:
    text = told(sources=[{"startOffset": '{"logOffset":2}', "endOffset": '{"logOffset":2}'}])
    assert StreamProgress.from_spark(text) == StreamProgress(4, 0, 1.5, 0, 0, 1767225612.0)


def test_a_look_that_found_nothing_to_do_is_no_batch() -> None:
    text = """{"batchId": 5, "batchDuration": 3, "durationMs": {"latestOffset": 2, "triggerExecution": 3},
        "sources": [{"numInputRows": 0}], "stateOperators": []}"""
    assert StreamProgress.from_spark(text) is None
