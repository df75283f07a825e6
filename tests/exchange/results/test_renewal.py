"""Rows of vertices that are not deterministic take the place of others: who has to run again, and what is published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import OutdatedInputError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import AttemptsRead, Manifest, read_manifest
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.results.outdated import check_current
from airflow_abs.exchange.results.renewal import has_renewed, replace_rows
from airflow_abs.exchange.storage.whole_files import write_json
from tests.recorded_runs import OPTIONS, MadeRegion, RecordedRun


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    """`dice` has other rows when it runs again; `odd` reads it, `total` reads both, `names` reads none of them."""
    regions = [
        MadeRegion("dice", files=(900, 900), deterministic=False),
        MadeRegion("names", files=(900,)),
        MadeRegion("odd", inputs={"dice": Partitioning.HASH}, parallelism=2, sink="/mart/odd"),
        MadeRegion(
            "total",
            inputs={"odd": Partitioning.BROADCAST, "dice": Partitioning.BROADCAST, "names": Partitioning.BROADCAST},
            sink="/mart/total",
            parallelism=1,
        ),
    ]
    made = RecordedRun(JobFolder(tmp_path, "dag", "run", "job"), regions, lambda *_: 120, OPTIONS)
    made.write_plan()
    made.run()
    return made


def again(run: RecordedRun, region: str, index: int, attempt: int = 1001, **changes: object) -> Manifest:
    """Run a subtask again, as recovery does."""
    before = run.manifests[region][index]
    made = replace(run.made(region, index, attempt), **changes)  # type: ignore[arg-type]
    run.manifests[region][index] = replace_rows(run.folder, run.plan, made, before)
    return run.manifests[region][index]


def outdated(run: RecordedRun, region: str = "total") -> list[str]:
    return [f"{name}[{index}]" for name, index in check_current(RunRecords(run.folder), region)]


def test_what_may_change_is_what_is_declared_so_and_all_that_reads_it(run: RecordedRun) -> None:
    assert run.plan.unrepeatable == ("dice", "odd", "total")
    assert run.plan.with_all_before("odd") == ("dice", "odd")


def test_readers_of_renewed_rows_run_again_each_once(run: RecordedRun) -> None:
    assert outdated(run) == []
    assert not has_renewed(run.folder)
    assert again(run, "dice", 1).renewals == 1  # the same checksums: they leave out columns
    assert has_renewed(run.folder)
    assert outdated(run, "odd") == ["odd[0]", "odd[1]"]
    assert outdated(run) == ["odd[0]", "odd[1]", "total[0]"]
    again(run, "odd", 1)
    assert outdated(run) == ["odd[0]", "total[0]"]
    again(run, "odd", 0)
    assert outdated(run) == ["total[0]"]
    again(run, "total", 0)
    assert outdated(run) == []


def test_rows_that_are_made_of_the_same_again_outdate_nobody(run: RecordedRun) -> None:
    found = again(run, "odd", 0)
    assert (found.rows_of, found.renewals) == (1, 0)
    assert again(run, "names", 0).rows_of == 1
    assert outdated(run) == []
    assert not has_renewed(run.folder)


def test_rows_of_a_deterministic_subtask_that_has_read_others_are_others(run: RecordedRun) -> None:
    again(run, "dice", 0)
    assert again(run, "odd", 0).rows_of == 1001


def test_a_manifest_that_is_gone_outdates_who_has_read_its_rows(run: RecordedRun) -> None:
    Path(str(run.folder.manifest_path("dice", 0))).unlink()
    assert outdated(run, "odd") == ["dice[0]", "odd[0]", "odd[1]"]
    made = run.made("dice", 0, 1002)
    assert replace_rows(run.folder, run.plan, made, None).renewals == 2
    assert has_renewed(run.folder)


def test_a_reader_that_is_newer_than_what_is_known_of_its_producer_is_no_part_of_a_mixture(run: RecordedRun) -> None:
    again(run, "odd", 0, read={"dice": (AttemptsRead(0, 1, 1001), AttemptsRead(1, 2, 1))})
    assert outdated(run, "odd") == ["odd[0]"]


def test_what_people_cleared_is_still_theirs_to_clear(run: RecordedRun) -> None:
    run.commit("names", 0, attempt=2, grown=5)
    with pytest.raises(OutdatedInputError, match=r"total\[0\]: has read attempt 1 of names\[0\]"):
        check_current(RunRecords(run.folder), "total")


def test_files_that_were_left_out_by_values_that_were_renewed_are_to_be_chosen_again(run: RecordedRun) -> None:
    read = {"dice": (AttemptsRead(0, 2, 1),)}
    write_json(run.folder.decision_path("odd"), replace(run.stored["odd"], measured_attempts=read).to_json())
    again(run, "dice", 1)
    with pytest.raises(OutdatedInputError, match=r"odd: was decided under the values of attempt 1 of dice\[1\], and"):
        check_current(RunRecords(run.folder), "odd")


def test_a_region_counts_every_row_that_was_renewed_also_of_a_wider_decision(run: RecordedRun) -> None:
    assert RunRecords(run.folder).renewals("odd") == 0
    again(run, "dice", 0)
    again(run, "odd", 0)
    again(run, "odd", 1)
    assert RunRecords(run.folder).renewals("odd") == 2
    again(run, "odd", 1, 1002, read={})
    wider = read_manifest(run.folder, "odd", 1)
    run.manifests["odd"].clear()
    write_json(Path(str(run.folder.manifest_path("odd", 2))), wider.to_json() | {"index": 2})
    assert RunRecords(run.folder).renewals("odd") == 5
    assert RunRecords(run.folder).renewals("names") == 0


def test_an_attempt_that_ends_after_a_later_one_takes_no_rows_back(run: RecordedRun) -> None:
    again(run, "dice", 0)
    paused, lost = run.made("odd", 1, 1001), run.manifests["odd"][1]
    later = again(run, "odd", 1, 1002)
    assert replace_rows(run.folder, run.plan, paused, lost) == later
    assert read_manifest(run.folder, "odd", 1) == later
    assert RunRecords(run.folder).renewals("odd") == 1
    of_airflow = run.made("odd", 1, 2)  # a later try of Airflow's
    assert replace_rows(run.folder, run.plan, of_airflow, later).attempt == 2
