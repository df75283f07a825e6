"""One recoverer at a time, on local files and on an object store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.recovery_claim import (
    LEASE_SECONDS,
    claim_recovery,
    end_claim,
    find_claims,
    read_claim,
    renew_claim,
)
from airflow_abs.exchange.records.tries import next_attempt
from airflow_abs.exchange.storage.locations import ExchangePath


@pytest.fixture
def folder(root: ExchangePath) -> JobFolder:
    return JobFolder(root, "dag", "run", "job")


def claim(folder: JobFolder, owner: str, now: float = 0.0, lost: int = 1) -> tuple[int, int | None] | None:
    claimed = claim_recovery(folder, "orders", 0, decision="d", owner=owner, lost_attempt=lost, now=now)
    return (claimed.claim.attempt, claimed.stale) if claimed else None


def test_attempts_of_one_try_have_numbers_that_no_other_try_has() -> None:
    assert [next_attempt(attempt) for attempt in (1, 2, 1001, 2001)] == [1001, 2001, 1002, 2002]


def test_of_many_readers_one_gets_the_claim(folder: JobFolder) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: claim(folder, f"reader {number}"), range(8)))
    assert sorted(filter(None, found)) == [(1001, None)]


def test_the_same_owner_goes_on_with_its_claim(folder: JobFolder) -> None:
    assert claim(folder, "a") == (1001, None)
    assert claim(folder, "a", now=LEASE_SECONDS * 3) == (1001, None)
    assert claim(folder, "b", now=LEASE_SECONDS * 3) is None


def test_a_claim_past_its_lease_is_followed_by_the_next_number_and_its_holder_is_named_stale(folder: JobFolder) -> None:
    assert claim(folder, "a") == (1001, None)
    assert claim(folder, "b", now=LEASE_SECONDS + 1) == (1002, 1001)


def test_a_renewed_claim_is_not_taken_over(folder: JobFolder) -> None:
    held = claim_recovery(folder, "orders", 0, decision="d", owner="a", lost_attempt=1, now=0.0)
    assert held is not None
    renew_claim(folder, held.claim, LEASE_SECONDS)
    assert claim(folder, "b", now=LEASE_SECONDS + 1) is None


def test_an_ended_claim_frees_the_way_at_once_and_nothing_of_it_runs_on(folder: JobFolder) -> None:
    held = claim_recovery(folder, "orders", 0, decision="d", owner="a", lost_attempt=1, now=0.0)
    assert held is not None
    end_claim(folder, held.claim)
    ended = read_claim(folder, "orders", 0, 1001)
    assert ended is not None
    assert ended.ended
    assert claim(folder, "b", now=1.0) == (1002, None)


def test_a_readers_claims_are_found_with_those_that_are_part_of_them(folder: JobFolder) -> None:
    for index, owner in enumerate(["by_region[1]", "by_region[1] < enriched[0]", "by_region[11]", "enriched[0]"]):
        claim_recovery(folder, "orders", index, decision="d", owner=owner, lost_attempt=1, now=0.0)
    ended = claim_recovery(folder, "orders", 9, decision="d", owner="by_region[1]", lost_attempt=1, now=0.0)
    assert ended is not None
    end_claim(folder, ended.claim)
    assert [claim.index for claim in find_claims(folder, "by_region[1]")] == [0, 1]
