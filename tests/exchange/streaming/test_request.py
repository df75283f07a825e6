"""A request to a stream reaches the query that it names, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.whole_files import write_json
from airflow_abs.exchange.streaming.request import StreamRequest, ask_stream, read_request


def test_the_last_request_for_this_query_counts(job: JobFolder) -> None:
    checkpoint = job.root / "checkpoint"
    assert read_request(checkpoint, "q 1") is None
    ask_stream(checkpoint, StreamRequest("drain", "q 1", "ann", 5.0))
    stop = StreamRequest("stop", "q 1", "ann", 6.0)
    ask_stream(checkpoint, stop)
    assert read_request(checkpoint, "q 1") == stop
    assert read_request(checkpoint, "q 2") is None


@pytest.mark.parametrize(
    "payload", [{"action": "explode", "query": "q", "by": "ann", "at": 5.0}, {"action": "stop", "query": "q"}]
)
def test_one_that_is_none_is_told_and_left_alone(
    tmp_path: Path, payload: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    write_json(tmp_path / "_airflow_abs" / "request.json", payload)
    assert read_request(tmp_path, "q") is None
    assert "the request to the stream cannot be read" in caplog.text
