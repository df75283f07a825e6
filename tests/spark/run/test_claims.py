"""Who recomputes what is lost, and under which number; no Spark is asked for that."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.recovery_claim import (
    LEASE_SECONDS,
    RecoveryClaim,
    claim_recovery,
    read_claim,
    renew_claim,
)
from airflow_abs.exchange.records.tries import TryRecord, write_try
from airflow_abs.exchange.results.lost_files import GONE
from airflow_abs.exchange.storage.whole_files import write_atomic
from airflow_abs.spark.errors import TransientSparkError
from airflow_abs.spark.run.claims import ClaimLedger, claim_lost
from airflow_abs.spark.run.inputs import LostResults

NO_CONNECTION: Any = None


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path, "dag", "run", "job")


def test_a_restarted_try_whose_manifest_is_damaged_is_not_recomputed_under_its_own_number(folder: JobFolder) -> None:
    write_atomic(folder.result_path("orders", 0, 1001, "r") / "part-0", b"written by try 1 after it restarted")
    write_atomic(folder.manifest_path("orders", 0), b"damaged")
    write_try(folder, "orders", 0, TryRecord(1, "d", 1001, "", "committed", "", 0.0))
    lost = LostResults("orders", 0, "d", None, ("r",), {}, 0)
    claim = asyncio.run(claim_lost(NO_CONNECTION, folder, "reader", lost))
    assert claim is not None
    assert claim.attempt == 1002


def test_a_recovery_that_slept_does_not_take_the_number_of_another(folder: JobFolder) -> None:
    slept = claim_recovery(folder, "orders", 0, decision="d", owner="a", lost_attempt=1, now=0.0)
    other = claim_recovery(folder, "orders", 0, decision="d", owner="b", lost_attempt=1, now=LEASE_SECONDS + 1)
    assert slept is not None
    assert other is not None
    with pytest.raises(
        TransientSparkError, match=r"a: lost its claim on orders\[0\]: attempt 1002 is another subtask's"
    ):
        ClaimLedger(folder, slept.claim).start(1002, "other inputs")
    held = read_claim(folder, "orders", 0, 1002)
    assert held == other.claim


def test_a_renewal_that_is_slow_does_not_bring_back_a_claim_that_was_let_go(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease would hold up the other readers for as long as it lasts."""
    claimed = claim_recovery(folder, "orders", 0, decision="d", owner="a", lost_attempt=1, now=time.time())
    assert claimed is not None
    ledger = ClaimLedger(folder, replace(claimed.claim, inputs="inputs"))
    writing, go_on, renewals = threading.Event(), threading.Event(), list[str]()

    def slow_renewal(where: JobFolder, claim: RecoveryClaim, now: float) -> RecoveryClaim:
        writing.set()
        assert go_on.wait(20.0)
        renewals.append(str(claim.attempt))
        return renew_claim(where, claim, now)

    monkeypatch.setattr("airflow_abs.spark.run.claims.renew_claim", slow_renewal)
    with ThreadPoolExecutor(2) as pool:
        renewed = pool.submit(ledger._renew)
        assert writing.wait(20.0)
        moved = pool.submit(ledger.start, 1001, "other inputs")  # while the old claim is being written
        time.sleep(0.2)  # let it come to where it has to wait: without the turn it would be through by then
        go_on.set()
        renewed.result()
        assert moved.result() == 1002
    ledger.end(7)
    ledger._renew()  # was on its way when the recovery ended
    ended = {number: read_claim(folder, "orders", 0, number) for number in (1001, 1002)}
    assert [claim.ended for claim in ended.values() if claim] == [True, True]
    assert renewals == ["1001"]


def test_what_release_deleted_is_told_as_released_and_not_as_lost(folder: JobFolder) -> None:
    files = {"a/part-0": GONE, "a/part-1": GONE}
    lost = LostResults("orders", 0, "d", None, ("r",), files, 3 << 20)
    write_atomic(folder.slice_path("orders", 0), b"goes with the data")
    assert lost.explain(folder) == "lost: orders[0]: 2 files, 3.0 MiB: a/part-0 is gone, ..."
    folder.slice_path("orders", 0).unlink()
    assert lost.explain(folder) == "released: orders[0]: 2 files, 3.0 MiB, deleted when the run succeeded; recomputing"
    cut = replace(lost, files={**files, "a/part-1": "has an altered footer"})
    assert cut.explain(folder).startswith("lost: orders[0]: 2 files")
