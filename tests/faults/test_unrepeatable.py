"""Output of a vertex that is not deterministic is lost: all that has read it runs again, and the sinks agree."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.publish.publication import read_commit
from airflow_abs.exchange.records.manifest import read_manifests
from airflow_abs.exchange.records.recovery_claim import list_claims
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.run.execution import AttemptExecution
from tests.faults.damage import committed_files, delete
from tests.faults.pipeline import make_lake
from tests.job_runner import JobRun, plan_run, program_of

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

CHANCE = random.Random(7)  # noqa: S311
ROWS = 4_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lake(tmp_path_factory.mktemp("lake"), ROWS)


def throw(orders: Any) -> Any:
    """Other dice with every run; the planner knows nothing of it."""
    return orders.selectExpr("order_id", "customer_id", "reflect('java.util.UUID', 'randomUUID') AS dice")


def keep(dice: Any) -> Any:
    return dice.select("order_id", "dice")


def compare(dice: Any, hashed: Any) -> Any:
    """Both ways in which the dice come here."""
    return dice.join(hashed.withColumnRenamed("dice", "other"), "order_id").select("order_id", "dice", "other")


def planned(server: ConnectEndpoint, lake: Path, folder: Path) -> JobRun:
    """`dice` is read by hash, file by file, and besides through `hashed`; three sinks."""
    sinks = {name: Files(str(folder / name)) for name in ("hashed", "filed", "compared")}
    return plan_run(
        server,
        folder / "exchange",
        [
            JobVertex("dice", has_source=True, parallelism=3),
            JobVertex("hashed", parallelism=2, has_sink=True),
            JobVertex("filed", parallelism=2, has_sink=True),
            JobVertex("compared", parallelism=2, has_sink=True),
        ],
        [
            JobEdge("dice", "hashed", "dice", Partitioning.HASH, ("order_id",)),
            JobEdge("dice", "filed", "dice", Partitioning.RESCALE),
            JobEdge("dice", "compared", "dice", Partitioning.HASH, ("order_id",)),
            JobEdge("hashed", "compared", "hashed", Partitioning.HASH, ("order_id",)),
        ],
        [
            program_of("dice", throw, {}, Files(f"{lake}/orders"), deterministic=False),
            program_of("hashed", keep, {}, sink=sinks["hashed"]),
            program_of("filed", keep, {}, sink=sinks["filed"]),
            program_of("compared", compare, {}, sink=sinks["compared"]),
        ],
    )


def run_regions(run: JobRun, *regions: str) -> None:
    for region in regions:
        asyncio.run(run.run_region(region))


def attempts(run: JobRun, region: str) -> list[int]:
    return [manifest.attempt for manifest in read_manifests(run.folder, region, len(run.reports[region]))]


def lose(run: JobRun, region: str, index: int) -> None:
    for path, file in committed_files(run.folder, region, index):
        delete(path, file, CHANCE)


def recomputed(run: JobRun) -> Counter[str]:
    """How often, by subtask."""
    return Counter(f"{claim.region}[{claim.index}]" for claim in list_claims(run.folder) if claim.recomputed_bytes)


def published(folder: Path, name: str) -> list[tuple[Any, ...]]:
    return duckdb.sql(f"SELECT * FROM read_parquet('{folder}/{name}/*.parquet') ORDER BY order_id").fetchall()


def assert_all_agree(folder: Path) -> None:
    hashed = published(folder, "hashed")
    assert [order for order, _ in hashed] == list(range(ROWS))
    assert len({dice for _, dice in hashed}) == ROWS
    assert published(folder, "filed") == hashed
    assert published(folder, "compared") == [(order, dice, dice) for order, dice in hashed]


def generation(folder: Path, name: str) -> int:
    record = read_commit(folder / name)
    assert record is not None
    (entry,) = record.entries
    return entry.generation


@pytest.mark.sample
def test_what_was_published_of_lost_rows_is_published_anew(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    """`hashed` has ended and is published, `filed` has ended, and `compared` has not begun."""
    run = planned(connect_server, lake, tmp_path)
    run_regions(run, "dice", "hashed", "filed")
    run.commit_region("hashed")
    before = published(tmp_path, "hashed")
    lose(run, "dice", 1)
    run_regions(run, "compared")
    run.commit_region("compared")
    run.commit_region("filed")
    assert_all_agree(tmp_path)
    assert attempts(run, "dice") == [1, 1001, 1]
    after = published(tmp_path, "hashed")
    assert 0 < sum(one != other for one, other in zip(before, after, strict=True)) < ROWS
    again = recomputed(run)
    assert set(again) == {"dice[1]", "hashed[0]", "hashed[1]", "filed[0]"}
    assert max(again.values()) == 1
    assert attempts(run, "compared") == [1, 1]
    assert generation(tmp_path, "hashed") == run.plan.generation + 2
    assert generation(tmp_path, "compared") == run.plan.generation


def test_whoever_read_no_row_of_the_lost_ones_does_not_run_again(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    """Of `filed`, each subtask reads the files of some subtasks only."""
    run = planned(connect_server, lake, tmp_path)
    run_regions(run, "dice", "filed", "hashed")
    run.commit_region("filed")
    lose(run, "dice", 2)
    run_regions(run, "compared")
    for region in ("hashed", "compared"):
        run.commit_region(region)
    assert_all_agree(tmp_path)
    assert attempts(run, "filed") == [1, 1001]
    assert recomputed(run)["filed[0]"] == 0


def test_who_runs_while_rows_are_renewed_reads_the_new_ones(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(connect_server, lake, tmp_path)
    run_regions(run, "dice")
    real = AttemptExecution.run

    async def losing(self: AttemptExecution) -> Any:
        attempt = self.work.attempt
        results = await real(self)
        if (attempt.region, attempt.index, attempt.attempt) == ("hashed", 0, 1):
            await asyncio.to_thread(lose, run, "dice", 0)
            await run.run_region("filed")  # finds the loss, while hashed[0] still runs
        return results

    monkeypatch.setattr(AttemptExecution, "run", losing)
    run_regions(run, "hashed", "compared")
    assert attempts(run, "dice") == [1001, 1, 1]
    assert attempts(run, "hashed")[0] == 1001
    for region in ("filed", "hashed", "compared"):
        run.commit_region(region)
    assert_all_agree(tmp_path)


def test_a_run_that_was_released_and_is_repaired_late_is_whole_again(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    from airflow_abs.exchange.runs.cleaning import release_job

    run = planned(connect_server, lake, tmp_path)
    run_regions(run, "dice", "hashed", "filed", "compared")
    run.commit()
    assert_all_agree(tmp_path)
    release_job(run.folder)
    asyncio.run(run.run_subtask("compared", 1, attempt=2))
    run.commit_region("compared")
    assert_all_agree(tmp_path)
