"""Event logs of Spark, read while they are being written."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID, uuid4, uuid5

from tests.spark_events import (
    QUERY_ENDED,
    QUERY_STARTED,
    OperationEvent,
    canceled_operations,
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


def job(what: str, job_id: int, **other: object) -> str:
    return json.dumps({"Event": f"SparkListenerJob{what}", "Job ID": job_id, **other}) + "\n"


def test_an_operation_is_canceled_if_its_spark_job_is_though_the_server_says_nothing_of_it(tmp_path: Path) -> None:
    log = tmp_path / "local-1"
    tags = {"spark.job.tags": f"SparkConnect_OperationTag_User_airflow_Session_{OTHER}_Operation_{OURS}"}
    log.write_text(line("Started") + job("Start", 2, Properties=tags) + job("Start", 3, Properties={}))
    canceled = {"Result": "JobFailed", "Exception": {"Message": "[SPARK_JOB_CANCELLED] Job 2 cancelled"}}
    with log.open("a") as more:
        more.write(job("End", 3, **{"Job Result": canceled}))
        more.write(job("End", 2, **{"Job Result": {"Result": "JobFailed", "Exception": {"Message": "lost"}}}))
    assert canceled_operations(tmp_path) == set()
    with log.open("a") as more:
        more.write(job("End", 2, **{"Job Result": canceled}))
    assert canceled_operations(tmp_path) == {OURS}


def test_starts_and_ends_of_queries_are_found(tmp_path: Path) -> None:
    told = [{"Event": kind, "id": "q"} for kind in (QUERY_STARTED, QUERY_ENDED)]
    progress = {"Event": QUERY_STARTED.replace("Started", "Progress")}
    (tmp_path / "local-1").write_text("".join(json.dumps(each) + "\n" for each in [told[0], progress, told[1]]))
    assert query_events(tmp_path) == told
