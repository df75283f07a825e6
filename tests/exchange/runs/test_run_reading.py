from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from upath import UPath

from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.decisions import StoredDecision
from airflow_abs.exchange.runs.run_reading import read_run
from tests.recorded_runs import MadeRegion, RecordedRun, chain_run


def test_reading_a_run_takes_the_checksum_of_each_decision_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one over all ranges: once for every subtask, a thousand of them would take seconds."""
    run = chain_run(tmp_path, regions=2, subtasks=30)
    run.run()
    digest, taken = StoredDecision.digest.fget, []
    assert digest is not None

    def counted(stored: StoredDecision) -> str:
        taken.append(stored)
        return digest(stored)

    monkeypatch.setattr(StoredDecision, "digest", property(counted))
    view = read_run(run.folder)
    assert [region.committed for region in view.regions] == [30, 30]
    assert len(taken) <= 2 * len(view.regions)  # when it is read, and to compare with


def test_reading_a_run_joins_its_root_for_no_subtask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path of Airflow's takes longer to join than a manifest to read."""
    run = chain_run(tmp_path, regions=2, subtasks=30)
    run.run()
    joined, join = [], UPath.__truediv__

    def counted(path: UPath, key: str) -> UPath:
        joined.append(key)
        return join(path, key)

    root = UPath(f"file://{tmp_path}")
    monkeypatch.setattr(type(root), "__truediv__", counted)
    view = read_run(replace(run.folder, root=root))
    assert [region.committed for region in view.regions] == [30, 30]
    assert len(joined) == 0
    _ = root / "plan.json"
    assert joined == ["plan.json"]  # so it was counted


def test_rows_of_a_vertex_count_once_however_many_ways_its_readers_need_them_cut(tmp_path: Path) -> None:
    regions = [
        MadeRegion("orders", files=(100,)),
        MadeRegion("joined", inputs={"orders": Partitioning.HASH}),
        MadeRegion("listed", inputs={"orders": Partitioning.REBALANCE}),
    ]
    run = RecordedRun(JobFolder(tmp_path, "dag", "run", "job"), regions, lambda region, index, part: 1250)
    run.write_plan()
    run.run("orders")
    view = read_run(run.folder).region("orders")
    # 16 subpartitions of 1,250 bytes, a row for each 10 bytes, written twice
    assert [len(manifest.results) for manifest in view.manifests.values()] == [2]
    assert view.rows == 16 * 1250 // 10
