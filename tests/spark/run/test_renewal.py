"""Which attempt of a subtask `commit` runs again."""

from __future__ import annotations

from pathlib import Path

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import read_manifest
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.spark.run.renewal import _outdated
from tests.recorded_runs import OPTIONS, MadeRegion, RecordedRun


def test_it_is_the_one_that_was_judged_and_not_one_that_has_replaced_it_since(tmp_path: Path) -> None:
    run = RecordedRun(JobFolder(tmp_path, "dag", "run", "job"), [MadeRegion("odd", files=(9,))], lambda *_: 1, OPTIONS)
    run.write_plan()
    run.run()
    records = RunRecords(run.folder)
    assert [each.attempt for each in records.manifests("odd")] == [1]
    run.commit("odd", 0, attempt=1001)
    assert read_manifest(run.folder, "odd", 0).attempt == 1001
    judged = _outdated(records, ("odd", 0), ("dice", 0)).manifest
    assert judged is not None
    assert judged.attempt == 1
