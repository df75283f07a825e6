"""Which files of its producers a subtask reads, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import StaleManifestError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.spark.run.inputs import InputCheck, files_read
from airflow_abs.spark.run.subtask_spec import Inputs, SubtaskSpec
from tests.recorded_runs import OPTIONS, MadeRegion, RecordedRun, copied_run


def spec_of(run: RecordedRun, region: str, index: int, memory_failures: int = 0) -> SubtaskSpec:
    return SubtaskSpec(run.folder, run.plan, run.plan.region(region), run.slice_of(region, index), memory_failures)


def all_inputs(run: RecordedRun, region: str) -> Inputs:
    return {
        entry.region: [manifest for _, manifest in sorted(run.manifests[entry.region].items())]
        for entry in run.plan.region(region).inputs
    }


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    """`copy` reads 8 files of 4 subtasks as [0, 3), [3, 5), [5, 7), [7, 8)."""
    made = copied_run(tmp_path, target_bytes=100)
    made.run()
    return made


def test_every_file_of_a_rescale_input_is_one_subtasks(run: RecordedRun) -> None:
    specs = [spec_of(run, "copy", index) for index in range(4)]
    inputs = all_inputs(run, "copy")
    read = [file.path for spec in specs for file in files_read(spec, inputs)]
    assert read == [
        f"orders/subtask-{index}/attempt-1/orders.whole/part-{file}.parquet" for index in range(4) for file in range(2)
    ]


def test_only_manifests_of_the_producers_that_wrote_its_files_are_read(run: RecordedRun) -> None:
    for index, producers in enumerate([[0, 1], [1, 2], [2, 3], [3]]):
        inputs, _ = InputCheck(spec_of(run, "copy", index)).look()
        assert [manifest.index for manifest in inputs["orders"]] == producers
    inputs, _ = InputCheck(spec_of(run, "noted", 0)).look()  # a hash input reads all, a rescale input nothing here
    assert {region: len(found) for region, found in inputs.items()} == {"notes": 2, "copy": 0}


def test_only_the_files_that_are_read_are_missed(run: RecordedRun) -> None:
    # no data is there at all: what is looked for is what is reported as lost
    _, lost = InputCheck(spec_of(run, "copy", 1)).look()
    assert [(str(each), sorted(Path(path).name for path in each.files)) for each in lost] == [
        ("orders[1]", ["part-1.parquet"]),
        ("orders[2]", ["part-0.parquet"]),
    ]


def test_a_producer_that_put_its_rows_into_other_files_since_the_decision_is_refused(run: RecordedRun) -> None:
    run.commit("orders", 1, attempt=2, grown=7)  # another checksum
    InputCheck(spec_of(run, "copy", 3)).look()  # reads orders[3] alone
    with pytest.raises(StaleManifestError) as caught:
        InputCheck(spec_of(run, "copy", 1)).look()
    assert str(caught.value) == (
        "copy[1]: reads files of orders[1] one by one, but orders[1] ran again since copy was decided and left "
        "other files: expected 2 with checksum 0, found 2 with checksum 7; clear copy.decide and everything after it"
    )
    assert caught.value.path == str(run.folder.manifest_path("orders", 1))


def test_what_was_decided_before_its_producer_was_decided_anew_has_to_be_decided_anew(tmp_path: Path) -> None:
    regions = [MadeRegion("raw", files=(900, 900)), MadeRegion("typed", inputs={"raw": Partitioning.HASH})]
    run = RecordedRun(JobFolder(tmp_path, "dag", "run", "job"), regions, lambda *_: 120, OPTIONS)
    run.write_plan()
    run.run()
    before = run.stored["raw"].digest
    spec = spec_of(run, "typed", 0)
    run.regions = [MadeRegion("raw", files=(900, 300)), regions[1]]
    run.decide("raw")
    run.commit("raw", 1, attempt=2)
    with pytest.raises(StaleManifestError) as caught:
        InputCheck(spec).look()
    assert str(caught.value) == (
        f"typed[0]: was decided under decision {before} of raw, and {run.stored['raw'].digest} counts now; clear "
        "typed.decide and everything after it"
    )


def test_the_decision_is_another_one_when_rows_are_in_other_files(run: RecordedRun) -> None:
    before = run.stored["copy"].digest
    run.commit("orders", 1, attempt=2, grown=0)
    run.decide("copy")
    assert run.stored["copy"].digest == before
    run.commit("orders", 1, attempt=3, grown=1)
    run.decide("copy")
    assert run.stored["copy"].digest != before


def test_what_ran_out_of_memory_reads_its_files_in_halves(run: RecordedRun) -> None:
    spec = spec_of(run, "copy", 0, memory_failures=1)
    inputs = all_inputs(run, "copy")
    pieces = spec.pieces(inputs)
    assert [piece.rescaled for piece in pieces] == [
        {"copy.orders": IndexRange(0, 2)},
        {"copy.orders": IndexRange(2, 3)},
    ]
    (entry,) = spec.region.inputs
    read = [file for piece in pieces for each in spec.files(entry, inputs, piece) for file in each.files]
    assert read == files_read(spec, inputs)
    assert spec.largest_cut == 3
    assert spec_of(run, "copy", 3, memory_failures=2).pieces(inputs) == [spec_of(run, "copy", 3).whole()]


def test_pieces_of_a_key_range_take_their_files_along(tmp_path: Path) -> None:
    run = copied_run(tmp_path, target_bytes=2500)
    run.run()
    spec = spec_of(run, "noted", 0, memory_failures=1)
    inputs = all_inputs(run, "noted")
    pieces = spec.pieces(inputs)
    files = [file for piece in pieces for file in piece.rescaled.get("noted.copy", ())]
    assert files == list(spec.whole().rescaled["noted.copy"])
    assert [index for piece in pieces for index in piece.subpartitions or ()] == list(spec.subpartitions or ())
