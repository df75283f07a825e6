"""Committed files are lost: exactly those subtasks run again, and the output is the oracle's."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_abs.exchange.records.manifest import read_manifest, read_manifests
from airflow_abs.exchange.records.recovery_claim import claim_recovery, read_claim
from airflow_abs.spark.errors import RecomputationError, SourceChangedError
from airflow_abs.spark.run.execution import AttemptExecution
from tests.faults.damage import DAMAGES, committed_files, delete, empty
from tests.faults.pipeline import answer, make_lake, output, plan_revenue
from tests.job_runner import JobRun

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("airflows_logging")]

CHANCE = random.Random(7)  # noqa: S311


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lake(tmp_path_factory.mktemp("lake"))


def run_regions(run: JobRun, *regions: str) -> None:
    for region in regions:
        asyncio.run(run.run_region(region))


def attempts(run: JobRun, region: str) -> list[int]:
    count = len(run.reports[region])
    return [manifest.attempt for manifest in read_manifests(run.folder, region, count)]


def started(connect_server: ConnectEndpoint, lake: Path, folder: Path, **options: Any) -> JobRun:
    """Planned, and run up to the region that joins."""
    run = plan_revenue(connect_server, lake, folder, **options)
    run_regions(run, "orders", "customers")
    return run


@pytest.mark.parametrize("damage", DAMAGES)
def test_exactly_the_subtask_whose_file_was_lost_runs_again(
    damage: str, connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    run = started(connect_server, lake, tmp_path)
    path, file = committed_files(run.folder, "orders", 1)[0]
    DAMAGES[damage](path, file, CHANCE)
    run_regions(run, "enriched", "by_region")
    run.commit()
    assert output(tmp_path) == answer(lake)
    assert attempts(run, "orders") == [1, 1001, *[1] * (len(run.reports["orders"]) - 2)]
    assert attempts(run, "customers") == [1]
    lost = [
        record.getMessage() for record in caplog.records if record.getMessage().startswith("lost: orders[1]: 1 file,")
    ]
    again = [
        record.getMessage() for record in caplog.records if record.getMessage().startswith("recomputed: orders[1]")
    ]
    assert (len(lost) >= 1, len(again)) == (True, 1)
    written = Path(str(run.folder.subtask_path("orders", 1))).glob("attempt-*")
    assert sorted(path.name for path in written) == ["attempt-1", "attempt-1001"]


@pytest.mark.sample
def test_a_manifest_that_is_lost_is_written_again_with_its_data(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    run = started(connect_server, lake, tmp_path)
    Path(str(run.folder.manifest_path("orders", 0))).unlink()
    Path(str(run.folder.manifest_path("customers", 0))).write_bytes(b"{}")
    run_regions(run, "enriched", "by_region")
    run.commit()
    assert output(tmp_path) == answer(lake)
    assert attempts(run, "customers") == [1001]


def test_what_the_producer_itself_read_is_recomputed_first(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    run = started(connect_server, lake, tmp_path)
    run_regions(run, "enriched")
    for region, index in (("orders", 0), ("customers", 0), ("enriched", 2)):
        for path, file in committed_files(run.folder, region, index):
            delete(path, file, CHANCE)
    run_regions(run, "by_region")
    run.commit()
    assert output(tmp_path) == answer(lake)
    assert attempts(run, "enriched") == [1, 1, 1001]
    assert attempts(run, "orders")[0] == 1001
    assert attempts(run, "customers") == [1001]


PASSES_OVER = {"spark.sql.files.ignoreMissingFiles": "true", "spark.sql.files.ignoreCorruptFiles": "true"}


@pytest.mark.parametrize("conf", [{}, PASSES_OVER], ids=["as usual", "spark would pass over it"])
@pytest.mark.parametrize("damage", ["delete", "truncate", "empty"])
def test_a_file_that_goes_while_it_is_read_is_noticed(
    damage: str,
    conf: dict[str, str],
    connect_server: ConnectEndpoint,
    lake: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = started(connect_server, lake, tmp_path, spark_conf=conf)
    path, file = committed_files(run.folder, "orders", 1)[0]
    real = AttemptExecution.run

    async def damaging(self: AttemptExecution) -> Any:
        if (self.work.attempt.region, self.work.attempt.index, self.work.attempt.attempt) == ("enriched", 0, 1):
            DAMAGES[damage](path, file, CHANCE)
        return await real(self)

    monkeypatch.setattr(AttemptExecution, "run", damaging)
    run_regions(run, "enriched", "by_region")
    run.commit()
    assert output(tmp_path) == answer(lake)
    assert attempts(run, "orders")[1] == 1001
    assert attempts(run, "enriched")[0] == 1001


def test_a_recomputation_that_gives_other_rows_is_not_passed_on(
    connect_server: ConnectEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source whose files have other rows and nobody can tell, as if sizes and times were the same."""
    monkeypatch.setattr("airflow_abs.spark.run.rounds.find_changed", lambda *given: None)
    lake = make_lake(tmp_path / "lake", rows=4_000)
    run = started(connect_server, lake, tmp_path, target_bytes=1 << 30)
    other = make_lake(tmp_path / "other", rows=4_004)
    for part in (lake / "orders").iterdir():
        part.write_bytes((other / "orders" / part.name).read_bytes())
    delete(*committed_files(run.folder, "orders", 0)[0], CHANCE)
    with pytest.raises(
        RecomputationError, match=r"produced different rows than before \(4,000 rows, checksum -?\d+; now 4,004, "
    ):
        run_regions(run, "enriched")
    claim = read_claim(run.folder, "orders", 0, 1001)
    assert claim is not None
    assert claim.ended


def test_a_source_file_that_is_gone_is_nobodys_to_recompute(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", rows=4_000)
    run = plan_revenue(connect_server, lake, tmp_path)
    run.decide("orders")
    for part in (lake / "orders").iterdir():
        part.rename(part.with_suffix(".aside"))
    with pytest.raises(SourceChangedError, match=r"part-\d\.parquet is gone: (.|\n)*Clear orders.decide"):
        asyncio.run(_run_decided(run, "orders"))


async def _run_decided(run: JobRun, region: str) -> None:
    from airflow_abs.exchange.records.decisions import read_decision
    from airflow_abs.spark.connect.connection import open_connection
    from airflow_abs.spark.run.subtask import SubtaskAttempt, run_subtask

    digest = read_decision(run.folder, region).digest
    async with open_connection(run.endpoint) as connection:
        await run_subtask(connection, run.folder, SubtaskAttempt(region, 0, 1, digest), Path)


@pytest.mark.sample
def test_the_claim_of_a_reader_that_vanished_is_taken_over(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    run = started(connect_server, lake, tmp_path)
    empty(*committed_files(run.folder, "orders", 1)[0], CHANCE)
    vanished = claim_recovery(run.folder, "orders", 1, decision="d", owner="gone", lost_attempt=1, now=0.0)
    assert vanished is not None
    run_regions(run, "enriched")
    assert read_manifest(run.folder, "orders", 1).attempt == 1002
    assert attempts(run, "enriched") == [1, 1, 1]


def test_a_damaged_plan_template_is_not_run(connect_server: ConnectEndpoint, lake: Path, tmp_path: Path) -> None:
    from airflow_abs.exchange.errors import DamagedFileError

    run = started(connect_server, lake, tmp_path)
    step = Path(str(run.folder.step_path("enriched", 0)))
    data = step.read_bytes()
    step.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(DamagedFileError, match=r"step-0.pb: .* checksum that plan.json names.*: clear the plan task"):
        run_regions(run, "enriched")
