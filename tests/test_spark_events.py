"""Event logs of Spark, read while they are being written."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID, uuid4, uuid5

from tests.spark_events import (
    QUERY_ENDED,
    QUERY_STARTED,
    OperationEvent,
    operation_events,
    operations,
    operations_told,
    query_events,
    started_operations,
)

OURS, OTHER = str(uuid5(UUID(int=0), "subtask")), str(uuid4())


def line(what: str, operation: str = OURS, statement: str = "root { write_operation {") -> str:
    event = {"Event": f"org.apache.spark.sql.connect.service.SparkListenerConnectOperation{what}"}
    return json.dumps(event | {"operationId": operation, "eventTime": 7, "statementText": statement}) + "\n"


def test_a_log_that_grows_is_read_on_and_a_line_that_is_not_whole_yet_is_left(tmp_path: Path) -> None:
    log = tmp_path / "local-1.inprogress"
    ended = line("Finished")
    log.write_text(line("Started") + line("Started", OTHER) + '{"Event":"SparkListenerTaskEnd"}\n' + ended[:40])
    started = OperationEvent(f"{tmp_path.name}/{log.name}", OURS, "Started", 7, writes=True)
    assert operation_events(tmp_path) == [started]
    assert operation_events(tmp_path) == [started]
    with log.open("a") as more:
        more.write(ended[40:])
    assert [each.what for each in operation_events(tmp_path)] == ["Started", "Finished"]
    assert operations_told(tmp_path, "Finished", "Closed") == operations(tmp_path) == {OURS}
    log.rename(tmp_path / "local-1")  # as Spark does in the end
    assert [each.what for each in operation_events(tmp_path)] == ["Started", "Finished"]


def test_operations_are_counted_for_each_server_and_those_that_write_nothing_are_not(tmp_path: Path) -> None:
    (tmp_path / "local-1").write_text(line("Started") + line("Started", statement="root { project {"))
    (tmp_path / "local-2").write_text(line("Started") * 2)
    name = tmp_path.name
    assert started_operations(tmp_path) == {(f"{name}/local-1", OURS): 1, (f"{name}/local-2", OURS): 2}


def test_starts_and_ends_of_queries_are_found(tmp_path: Path) -> None:
    told = [{"Event": kind, "id": "q"} for kind in (QUERY_STARTED, QUERY_ENDED)]
    progress = {"Event": QUERY_STARTED.replace("Started", "Progress")}
    (tmp_path / "local-1").write_text("".join(json.dumps(each) + "\n" for each in [told[0], progress, told[1]]))
    assert query_events(tmp_path) == told
