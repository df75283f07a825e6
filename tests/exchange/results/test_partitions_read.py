"""No run publishes to a partition that it reads: repeated, it would read its own rows, or find its input deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.exchange.errors import CommitError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.results.partitions_read import check_partitions_read
from tests.recorded_runs import OPTIONS, MadeRegion, RecordedRun


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    """It reads files in /lake/day=1 and /lake/day=2."""
    regions = [
        MadeRegion("day=1", files=(900, 900)),
        MadeRegion("day=2", files=(900,)),
        MadeRegion("day=3", files=(1,)),
    ]
    made = RecordedRun(JobFolder(tmp_path, "dag", "run", "job"), regions, lambda *_: 120, OPTIONS)
    made.write_plan()
    for region in ("day=1", "day=2"):
        made.decide(region)
    return made


def test_partitions_beside_those_that_are_read_are_published(run: RecordedRun) -> None:
    records = RunRecords(run.folder)
    check_partitions_read(records, "/lake", ["day=4", "day=1/hour=2", "day=11"])
    check_partitions_read(records, "s3://lake", ["day=1"])
    check_partitions_read(records, "/lake", ["day=3"])  # of that vertex nothing was decided


@pytest.mark.parametrize("target", ["/lake", "file:///lake/", "/lake/../lake"])
def test_a_partition_that_is_read_is_refused_with_the_vertex_that_reads_it(run: RecordedRun, target: str) -> None:
    with pytest.raises(CommitError) as caught:
        check_partitions_read(RunRecords(run.folder), target, ["day=4", "day=2"])
    assert str(caught.value) == (
        f"sink {target}: the run would publish to day=2, which its vertex 'day=2' has read: it would delete its input, "
        "or read its own output when it is repeated; nothing was published. Read partitions that the run does not "
        "write, or publish to another folder"
    )
    assert not caught.value.restartable
