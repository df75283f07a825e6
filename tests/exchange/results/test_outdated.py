"""What is published is made of rows that count now, all of one attempt of each producer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import OutdatedInputError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import AttemptsRead, Manifest, attempts_read, read_manifest, write_manifest
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.results.outdated import check_current
from airflow_abs.exchange.storage.whole_files import write_json
from tests.recorded_runs import OPTIONS, MadeRegion, RecordedRun


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    """Three subtasks read three files; six read what those wrote, and one counts."""
    regions = [
        MadeRegion("raw", files=(900, 900, 900)),
        MadeRegion("typed", inputs={"raw": Partitioning.HASH}, parallelism=6),
        MadeRegion("total", inputs={"typed": Partitioning.BROADCAST}, sink="/mart/total", parallelism=1),
    ]
    made = RecordedRun(JobFolder(tmp_path, "dag", "run", "job"), regions, lambda *_: 120, OPTIONS)
    made.write_plan()
    made.run()
    assert [len(made.manifests[name]) for name in ("raw", "typed", "total")] == [3, 6, 1]
    return made


def refusal(run: RecordedRun, region: str = "total") -> str:
    with pytest.raises(OutdatedInputError) as caught:
        check_current(RunRecords(run.folder), region)
    assert not caught.value.restartable
    return str(caught.value)


def test_a_run_without_clears_is_current(run: RecordedRun) -> None:
    check_current(RunRecords(run.folder), "total")


def test_readers_of_the_rows_before_a_clear_are_named(run: RecordedRun) -> None:
    run.commit("raw", 1, attempt=2, grown=5)
    run.commit("typed", 5, attempt=2)
    run.commit("total", 0, attempt=2)
    assert refusal(run) == (
        "typed[0]: has read attempt 1 of raw[1], of which attempt 2 counts now (5 subtasks of typed in all); expected "
        "rows of one attempt in all that is published: clear typed.run, map index 0-4, and everything after it. "
        "Nothing was published"
    )


def test_a_reader_of_readers_is_outdated_with_them(run: RecordedRun) -> None:
    run.commit("raw", 1, attempt=2, grown=5)
    for index in range(6):
        run.commit("typed", index, attempt=2, grown=1)
    message = refusal(run)
    assert message.startswith("total[0]: has read attempt 1 of typed[0], of which attempt 2 counts now; expected")
    assert "clear total.run, map index 0, and everything after it" in message
    run.commit("total", 0, attempt=2)
    check_current(RunRecords(run.folder), "total")


def test_the_same_rows_again_outdate_nobody(run: RecordedRun) -> None:
    before = read_manifest(run.folder, "raw", 1)
    again = replace(before, attempt=2).continues(before)
    write_manifest(run.folder, replace(again, attempt=3).continues(again))
    found = read_manifest(run.folder, "raw", 1)
    assert (found.attempt, found.same_since) == (3, 1)
    check_current(RunRecords(run.folder), "total")


def test_rows_without_a_checksum_are_not_taken_for_the_same(run: RecordedRun) -> None:
    before = read_manifest(run.folder, "raw", 1)
    unknown = replace(before, results={name: replace(each, checksum=None) for name, each in before.results.items()})
    assert replace(unknown, attempt=2).continues(unknown).same_since is None


def test_a_result_that_was_recomputed_within_its_try_is_the_one_that_was_read(run: RecordedRun) -> None:
    run.commit("raw", 1, attempt=1001)
    check_current(RunRecords(run.folder), "total")


def test_manifests_of_an_older_version_say_nothing_and_are_taken(run: RecordedRun) -> None:
    for index in range(6):
        path = run.folder.manifest_path("typed", index)
        payload = read_manifest(run.folder, "typed", index).to_json()
        del payload["read"], payload["same_since"]
        write_json(path, payload)
    run.commit("raw", 1, attempt=2, grown=5)
    check_current(RunRecords(run.folder), "total")


def test_a_manifest_that_is_lost_since_outdates_nobody_and_hides_no_other(run: RecordedRun) -> None:
    Path(str(run.folder.manifest_path("raw", 0))).unlink()
    check_current(RunRecords(run.folder), "total")
    run.commit("raw", 1, attempt=2, grown=5)
    assert "has read attempt 1 of raw[1]" in refusal(run)


def test_a_decision_under_another_plan_is_to_be_made_again(run: RecordedRun) -> None:
    write_json(run.folder.plan_path, replace(run.plan, id="plan-2").to_json())
    assert refusal(run) == (
        "raw: was decided under plan plan-1, and the run's is plan-2, so its rows do not belong with the others; "
        "expected one plan, and one decision for each region: clear raw.decide and everything after it. Nothing was "
        "published"
    )


def test_readers_of_a_decision_before_are_to_be_decided_again(run: RecordedRun) -> None:
    changed = replace(run.stored["raw"], notes={"raw.source": "listed again"})
    write_json(run.folder.decision_path("raw"), changed.to_json())
    words = r"typed: was decided under decision \w+ of raw, and \w+ counts now, so .*: clear typed\.decide and"
    assert re.match(words, refusal(run))


def test_files_that_were_left_out_by_values_of_another_attempt_are_to_be_chosen_again(run: RecordedRun) -> None:
    read = {"raw": (AttemptsRead(0, 3, 1),)}
    write_json(run.folder.decision_path("typed"), replace(run.stored["typed"], measured_attempts=read).to_json())
    check_current(RunRecords(run.folder), "total")
    run.commit("raw", 1, attempt=2, grown=5)
    for index in range(6):
        run.commit("typed", index, attempt=2)
    assert "typed: was decided under the values of attempt 1 of raw[1], and attempt 2 counts now" in refusal(run)


def test_attempts_are_told_in_spans() -> None:
    made = [Manifest("raw", index, attempt, "d", 0.0, {}) for index, attempt in enumerate([1, 1, 2, 1])]
    assert attempts_read(made) == (AttemptsRead(0, 2, 1), AttemptsRead(2, 3, 2), AttemptsRead(3, 4, 1))
    assert attempts_read(made[::3]) == (AttemptsRead(0, 1, 1), AttemptsRead(3, 4, 1))
