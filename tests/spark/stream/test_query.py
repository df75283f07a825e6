"""What Spark says of a query that failed, taken apart."""

from __future__ import annotations

from airflow_abs.core.streaming.failures import QueryFailure
from airflow_abs.spark.stream.query import StreamProgress, failure_of

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
    assert failure_of(message, 8) == QueryFailure(said, False, f"{{{offsets}}}", 8)


def test_what_may_pass_is_restarted() -> None:
    assert failure_of(f"{BEGIN}Job aborted due to stage failure: ExecutorLostFailure{END}").restartable
    assert failure_of(f"{BEGIN}No space left on device").restartable
    assert failure_of("the query has ended").restartable
    state = "[CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT] Error writing state store files. SQLSTATE: 58030"
    assert failure_of(f"{BEGIN}{state}{END}").restartable


def test_progress_adds_up_sources_and_state() -> None:
    text = """{"batchId": 4, "batchDuration": 1500, "durationMs": {"addBatch": 1400}, "processedRowsPerSecond": 20.5,
        "sources": [{"numInputRows": 10}, {"numInputRows": 5}],
        "stateOperators": [{"numRowsTotal": 7, "memoryUsedBytes": 1000}, {"numRowsTotal": 1, "memoryUsedBytes": 24}]}"""
    assert StreamProgress.from_spark(text) == StreamProgress(4, 15, 1.5, 20.5, 8, 1024)


def test_a_look_that_found_nothing_to_do_is_no_batch() -> None:
    text = """{"batchId": 5, "batchDuration": 3, "durationMs": {"latestOffset": 2, "triggerExecution": 3},
        "sources": [{"numInputRows": 0}], "stateOperators": []}"""
    assert StreamProgress.from_spark(text) is None
