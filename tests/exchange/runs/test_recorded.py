"""What the simulation takes from a run in the exchange, and how large it says that the run's own records are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_abs.core.simulate.growth import Growth, Scenario
from airflow_abs.core.simulate.recorded_job import RecordedResult
from airflow_abs.core.simulate.simulation import decide_all, manifest_bytes, xcom_bytes
from airflow_abs.exchange.records.manifest import MANIFEST_VERSION, Manifest, ResultFile, ResultManifest
from airflow_abs.exchange.records.reports import report
from airflow_abs.exchange.runs.recorded import recorded_job
from airflow_abs.exchange.runs.run_json import region_to_json
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.storage.whole_files import encode_json, write_json
from tests.recorded_runs import copied_run, revenue_run

SCHEMA = json.dumps(
    {"type": "struct", "fields": [{"name": f"c{k}", "type": "long", "nullable": True} for k in range(9)]}
)
NAME = "revenue.0123456789abcdef"


def made_manifest(subpartitions: int, files: int, cell: int) -> Manifest:
    written = tuple(
        ResultFile(
            f"revenue/subtask-12/attempt-1/{NAME}/part-{k:05}-0a1b2c3d-0a1b-4c5d-8e9f-0123456789ab-c000.lz4raw.parquet",
            cell * subpartitions,
            123456,
            0,
            (cell,) * subpartitions,
            65536,
            "0123abcd",
        )
        for k in range(files)
    )
    result = ResultManifest("parquet", SCHEMA, subpartitions, written, "12345678901234567890")
    return Manifest("revenue", 12, 1, "0123456789abcdef", 12.345678, {NAME: result}, 1.2345)


@pytest.mark.parametrize("subpartitions", [1, 128, 1024])
@pytest.mark.parametrize("files", [1, 8])
@pytest.mark.parametrize("cell", [700, 70_000, 7_000_000])
def test_records_are_as_large_as_the_simulation_says(subpartitions: int, files: int, cell: int) -> None:
    manifest = made_manifest(subpartitions, files, cell)
    written = cell * subpartitions * files
    results = [RecordedResult(NAME, written, subpartitions, name_bytes=len(NAME) + len(SCHEMA))]
    xcom = len(json.dumps(report(manifest, 16)))
    stored = len(encode_json(manifest.to_json(), version=MANIFEST_VERSION))
    assert xcom_bytes(results, 1) == pytest.approx(xcom, rel=0.15)
    assert manifest_bytes(results, 1, files) == pytest.approx(stored, rel=0.15)


def test_what_a_subtask_with_one_result_and_one_file_leaves_is_small() -> None:
    """At 7 MB a cell: 128 subpartitions are 0.9 GB a subtask, 1,024 are 7 GB."""
    for subpartitions, most in ((128, 8 * 1024), (1024, 32 * 1024)):
        manifest = made_manifest(subpartitions, 1, 7_000_000)
        assert len(json.dumps(report(manifest, 1024))) < most
        assert len(encode_json(manifest.to_json(), version=MANIFEST_VERSION)) < most


def test_a_run_is_taken_as_it_was_recorded(tmp_path: Path) -> None:
    made = revenue_run(tmp_path)
    made.run()
    job = recorded_job(read_run(made.folder))
    assert job.name == "daily_revenue/manual__2026-01-03/revenue"
    orders, customers, enriched, by_region = job.regions
    assert (orders.source_bytes, customers.source_bytes, enriched.source_bytes) == (4000, 700, 0)
    assert (orders.starts, orders.seconds) == ((10.0, 10.25, 10.5, 10.75), (1.5, 1.6, 1.7, 1.8))
    assert enriched.after == ("customers", "orders")
    assert (enriched.starts[0], orders.end) == pytest.approx((12.55, 12.55))
    assert [result.is_sink for result in by_region.results] == [True]
    assert by_region.results[0].bytes == sum(
        manifest.results["by_region.sink"].bytes for manifest in made.manifests["by_region"].values()
    )


def test_when_an_older_run_ran_nobody_knows(tmp_path: Path) -> None:
    made = revenue_run(tmp_path)
    made.run()
    older = {name: value for name, value in made.stored["orders"].to_json().items() if name != "measured_at"}
    write_json(made.folder.decision_path("orders"), older)
    assert recorded_job(read_run(made.folder)).regions[0].starts == ()


def test_files_of_rescale_inputs_are_reported_and_shown(tmp_path: Path) -> None:
    made = copied_run(tmp_path, target_bytes=100)
    made.run()
    manifest = made.manifests["orders"][0]
    sizes = manifest.results["orders.whole"].files[0].subpartition_bytes
    assert report(manifest, 4)["results"] == {
        "orders.whole": {"bytes": [2 * sizes[0]], "files": [sizes[0]] * 2, "checksum": "0"}
    }
    run = read_run(made.folder)
    copy, noted = run.region("copy"), run.region("noted")
    assert [subtask.reads for subtask in copy.subtasks] == ["3 files", "2 files", "2 files", "1 file"]
    assert [subtask.reads for subtask in noted.subtasks[:2]] == ["[0, 1)", "[1, 2) and 1 file"]
    assert [edge.how for edge in noted.edges] == ["hash(customer_id)", "rescale"]
    assert (copy.bytes_by_subpartition, len(noted.bytes_by_subpartition)) == ((), 16)  # only what is cut by key
    region = region_to_json(copy)
    assert [(subtask["splits"], subtask["files"]) for subtask in region["subtasks"]] == [(0, 3), (0, 2), (0, 2), (0, 1)]


def test_more_of_a_day_is_more_files_of_its_producers(tmp_path: Path) -> None:
    made = copied_run(tmp_path, target_bytes=100)
    made.run()
    job = recorded_job(read_run(made.folder))
    decisions = decide_all(job, Growth(job, Scenario(factor=2.0)))
    # twice the files of orders, so 8 subtasks that write two files each
    assert (decisions["orders"].parallelism, decisions["copy"].inputs[0].files) == (8, 16)
    assert decisions["copy"].total_bytes == 2 * sum(subtask.bytes for subtask in made.stored["copy"].decision.subtasks)
