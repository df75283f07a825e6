"""Publication, leases and cleaning under thousands of interleavings; and the model finds what is put back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.begun import UNKNOWN, note_publishing, published_renewals
from airflow_abs.exchange.publish.commit_log import CommitLog, LogRecord
from airflow_abs.exchange.publish.object_store import StoreCommit
from airflow_abs.exchange.publish.record import RECORD_NAME, CommitRecord, plan_publication
from airflow_abs.exchange.records.recovery_claim import RecoveryClaim, end_claim, renew_claim
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.results.outdated import check_current
from airflow_abs.exchange.storage.locations import ExchangePath, Location
from airflow_abs.exchange.storage.whole_files import create_exclusively, decode_json, encode_json, write_atomic
from tests.model.before import object_store as before
from tests.model.cleaning import CleaningScenario
from tests.model.local import LocalScenario, audited
from tests.model.publishing import Publisher, Scenario, repeatable_tokens
from tests.model.recovering import RecoveringScenario
from tests.model.renewing import RenewingScenario
from tests.model.scenarios import FOLDER, LOCAL, OLD, SMALL, STORE, surroundings
from tests.model.search import Found, search_all, search_at_random, search_pauses

SEED = 1
STORE_SCHEDULES, LOCAL_SCHEDULES = 372, 90  # of each world: 5,000 in all


def record_of_before(target: Location) -> CommitRecord:
    where = str(target / RECORD_NAME)
    try:
        return CommitRecord.from_json(decode_json((target / RECORD_NAME).read_whole(), where=where), where=where)
    except FileNotFoundError:
        return CommitRecord()


@pytest.fixture
def tokens() -> Iterator[None]:
    with repeatable_tokens():
        yield


@pytest.mark.slow
@pytest.mark.parametrize("name", STORE)
def test_no_schedule_loses_or_mixes_anything_on_an_object_store(name: str) -> None:
    with surroundings(STORE[name]):
        found = search_at_random(STORE[name].build, SEED, STORE_SCHEDULES)
    assert found.violation == ""
    assert found.schedules == STORE_SCHEDULES


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCAL)
def test_no_schedule_loses_or_mixes_anything_in_a_local_folder(name: str) -> None:
    with surroundings(LOCAL[name]):
        found = search_at_random(LOCAL[name].build, SEED, LOCAL_SCHEDULES)
    assert found.violation == ""
    assert found.schedules == LOCAL_SCHEDULES


@pytest.mark.parametrize("name", SMALL)
def test_all_schedules_of_two_publishers(name: str) -> None:
    with surroundings(SMALL[name]):
        found = search_all(SMALL[name].build)
    assert found.violation == ""
    assert found.states > 100


def test_a_schedule_is_played_again_in_the_same_way(tokens: None) -> None:
    scenario = STORE["two runs with two tries, and a reader; answers are lost"]
    assert search_at_random(scenario.build, 7, 20) == search_at_random(scenario.build, 7, 20)


def search_before(publishers: list[Publisher], **options: object) -> Found:
    scenario = Scenario(publishers, commit=before.StoreCommit, read_record=record_of_before, **options)  # type: ignore[arg-type]
    return search_at_random(scenario.build, SEED, 2_000)


def test_it_finds_the_data_that_a_lease_without_fencing_loses(tokens: None) -> None:
    """Defect 1: the lease runs out while a publisher copies."""
    publishers = [Publisher("a", files=2), Publisher("b", files=2)]
    found = search_before(publishers, sleeps=1, counts_strays=False)
    assert "which is gone; after: " in found.violation
    assert "time passes" in found.violation
    assert found.schedules == 26


def test_it_finds_the_foreign_files_that_a_repeated_publication_deletes(tokens: None) -> None:
    """Defect 2: a file of the record is gone, and so is what was staged."""
    found = search_before([replace(OLD, released=True)], before=OLD, vanished=1, foreign_before=1)
    assert "foreign-0.parquet is gone, which nobody of ours wrote and nothing replaced" in found.violation
    assert found.schedules == 1


def end_and_write(
    folder: JobFolder, claim: RecoveryClaim, attempt: int, inputs: str, now: float
) -> RecoveryClaim | None:
    end_claim(folder, claim)
    return renew_claim(folder, replace(claim, attempt=attempt, inputs=inputs), now)


def test_it_finds_the_attempt_that_two_recoveries_own(tokens: None) -> None:
    """Defect 7: a claim went on under the next number without asking whose that is."""
    found = search_at_random(RecoveringScenario(move=end_and_write).build, SEED, 2_000)
    assert "attempt 1002 is of reader 0 and reader 1" in found.violation
    assert found.schedules <= 50


def test_it_finds_the_attempt_that_a_try_and_a_recovery_own(tokens: None) -> None:
    """Defect 8: without a manifest, recovery took attempt 1 for the last one of a try that had started over."""
    scenario = RecoveringScenario(restarted=True, known=lambda folder, region, index: 1)
    found = search_at_random(scenario.build, SEED, 2_000)
    assert "attempt 1001 is of reader" in found.violation
    assert "and try 1" in found.violation
    assert found.schedules == 1


@pytest.mark.parametrize(
    ("target", "does", "found_within"),
    [
        # Only what was lost is recomputed, as in a repeatable region.
        ("airflow_abs.exchange.results.outdated.find_outdated", {}, 50),
        # What others have published is left as it is.
        ("airflow_abs.execution.commit._find_outdated_others", [], 50),
        # What reads renewed rows is published under the generation of the plan.
        ("airflow_abs.exchange.records.run_records.RunRecords.renewals", 0, 500),
    ],
)
def test_it_finds_the_mixture_that_lost_rows_that_are_not_repeatable_leave(
    target: str, does: object, found_within: int
) -> None:
    scenario = RenewingScenario(commits=2)
    with surroundings(scenario), mock.patch(target, return_value=does):
        found = search_at_random(scenario.build, SEED, found_within)
    assert re.match(r"odd was published of \['dice.*, and total of \['dice", found.violation)


def publish_while_rows_are_renewed() -> Found:
    """The publication of `odd` sleeps at any of its calls, until `total` has lost, renewed and published rows."""
    scenario = RenewingScenario()
    with surroundings(scenario):
        return search_pauses(scenario.build, ["odd"], "commit odd 0", ["loss", "total", "commit total"])


def test_a_commit_may_sleep_anywhere_while_rows_are_renewed() -> None:
    found = publish_while_rows_are_renewed()
    assert found.violation == ""
    assert found.schedules > 20


def note_afterwards(folder: JobFolder, region: str, plan: str, renewals: int = UNKNOWN) -> None:
    if renewals != UNKNOWN:
        note_publishing(folder, region, plan, renewals)


def test_it_finds_the_commit_that_does_not_say_beforehand_that_it_publishes() -> None:
    with mock.patch("airflow_abs.execution.commit.note_publishing", note_afterwards):
        assert "odd was published of" in publish_while_rows_are_renewed().violation


def test_it_finds_the_commit_that_does_not_look_again_after_it_has_published() -> None:
    def looks_once(records: RunRecords, region: str) -> object:
        has_published = published_renewals(records.folder, region, records.plan.id) is not None
        return {} if region == "odd" and has_published else check_current(records, region)

    with (
        mock.patch("airflow_abs.execution.commit.check_current", looks_once),
        mock.patch("airflow_abs.exchange.records.run_records.RunRecords.renewals", return_value=0),
    ):
        assert "odd was published of" in publish_while_rows_are_renewed().violation


def create_or_replace(place: ExchangePath, data: bytes) -> bool:
    write_atomic(place, data)
    return True


def append_without_another_look(self: CommitLog, record: LogRecord) -> bool:
    return create_exclusively(self._log.place(record.number), encode_json(record.to_json()))


def test_it_finds_who_does_not_look_whether_its_number_counts(tokens: None) -> None:
    """It slept until the number that it creates was used and deleted by others."""
    publishers = [Publisher("a"), Publisher("b"), Publisher("c")]
    with mock.patch.object(CommitLog, "append", append_without_another_look):
        found = search_at_random(Scenario(publishers, sleeps=2).build, SEED, 5_000)
    assert "says that it has published, and no record ever said so" in found.violation
    assert found.schedules <= 100


def test_it_finds_what_a_log_without_exclusive_creates_loses(tokens: None) -> None:
    with mock.patch("airflow_abs.exchange.storage.numbered_log.create_exclusively", create_or_replace):
        found = search_at_random(STORE["two runs"].build, SEED, 2_000)
    assert found.violation
    assert found.schedules <= 100


def test_it_finds_what_names_that_are_used_twice_lose(tokens: None) -> None:
    def plan_without_suffix(*args: object, suffix: str, **options: object) -> object:
        return plan_publication(*args, **options)  # type: ignore[arg-type]

    scenario = STORE["two tries of one run, and a reader"]
    with mock.patch("airflow_abs.exchange.publish.object_store.plan_publication", plan_without_suffix):
        found = search_at_random(scenario.build, SEED, 2_000)
    assert found.violation
    assert found.schedules <= 100


def test_it_finds_what_is_deleted_before_the_record_says_so(tokens: None) -> None:
    perform = StoreCommit._perform

    def delete_first(self: StoreCommit, plan: object, claim: object, listing: object) -> None:
        self._delete(plan.drop)  # type: ignore[attr-defined]
        perform(self, plan, claim, listing)  # type: ignore[arg-type]

    with mock.patch.object(StoreCommit, "_perform", delete_first):
        found = search_at_random(STORE["two runs, a reader, files of others"].build, SEED, 100)
    assert found.violation
    assert found.schedules <= 5


def test_it_finds_what_gc_deletes_if_any_folder_is_a_run(tokens: None) -> None:
    with (
        mock.patch("airflow_abs.exchange.runs.cleaning.is_planned", return_value=True),
        mock.patch("airflow_abs.exchange.runs.cleaning._is_ours", return_value=True),
    ):
        found = search_at_random(CleaningScenario(sleeps=1).build, SEED, 100)
    assert "is gone, which nobody of ours wrote" in found.violation


def test_it_finds_the_folder_that_a_sibling_removes() -> None:
    """Defect 5: `mkdir` of the lock's folder, and the `rmdir` of whoever has just ended."""

    def make_once(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)

    with audited(), mock.patch("airflow_abs.exchange.publish.lock.make_folder", make_once):
        publishers = [Publisher("a", "append"), Publisher("b", "append")]
        found = search_at_random(LocalScenario(publishers, folder=FOLDER).build, SEED, 5_000)
    assert "FileExistsError" in found.violation
    assert found.schedules == 100
