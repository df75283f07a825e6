"""An hourly load over two days, with everything that goes wrong with files and runs: every file is read once."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import duckdb
import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.incremental.position import Progress
from airflow_abs.exchange.errors import CommitError
from airflow_abs.exchange.incremental.position_log import read_position
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.pinned import read_pinned
from airflow_abs.tables.declared import take_sources
from airflow_abs.tables.publishing import publication
from tests.job_runner import OPTIONS, JobRun, program_of, rows

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

HOURS = 48
SEED = 18
GRAPH = build_job_graph(
    [JobVertex("orders", has_source=True), JobVertex("total", has_sink=True)],
    [JobEdge("orders", "total", "orders", Partitioning.HASH, ("region",))],
    OPTIONS.max_parallelism,
)


class KilledError(Exception):
    """The worker died here."""


def total(orders: Any) -> Any:
    from pyspark.sql import functions as sf

    return orders.groupBy("region", "file").agg(sf.sum("amount").alias("amount"), sf.count("*").alias("orders"))


@dataclass(slots=True)
class Load:
    """A DAG with a run each hour; `over` are the runs that have ended."""

    endpoint: ConnectEndpoint
    root: Path
    over: set[str] = field(default_factory=set)

    def folder(self, run_id: str) -> JobFolder:
        return JobFolder(self.root / "exchange", "dag", run_id, "job")

    def deliver(self, name: str) -> None:
        """A file of some rows; the same one for the same name, whenever."""
        path = self.root / "landing" / name
        path.parent.mkdir(exist_ok=True)
        seed = sum(map(ord, name))
        columns = f"'{name}' AS file, 'r' || (i % 3) AS region, (i * {seed}) % 97 AS amount"
        duckdb.sql(f"COPY (SELECT {columns} FROM range({seed % 40 + 1}) t(i)) TO '{path}.new' (FORMAT parquet)")
        os.utime(f"{path}.new", (seed, seed))
        Path(f"{path}.new").rename(path)

    def plan(self, run_id: str) -> JobRun:
        self.over.discard(run_id)
        source = Files(
            str(self.root / "landing"),
            schema="file STRING, region STRING, amount BIGINT",
            missing="empty",
            incremental=True,
        )
        taken = take_sources(self.folder(run_id), GRAPH, {"orders": source}, Path, self.over.__contains__)
        programs = {
            "orders": program_of("orders", None, {}, taken["orders"]),
            "total": program_of("total", total, {}, sink=Files(str(self.root / "mart"), mode="append")),
        }
        options = replace(OPTIONS, target_bytes=1)
        return JobRun.planned(self.endpoint, self.folder(run_id), GRAPH, programs, options)

    def work(self, run: JobRun) -> None:
        assert asyncio.run(run.run_regions()) == {}
        new = read_pinned(run.folder, "orders", "orders").files
        assert run.decisions["orders"].parallelism == max(1, len(new))  # from the new bytes, of which one each is much

    def run(self, run_id: str) -> None:
        """From `plan` to the end."""
        run = self.plan(run_id)
        self.work(run)
        run.commit()
        self.over.add(run_id)

    def fail(self, run_id: str) -> None:
        """Its last try failed before it published."""
        self.work(self.plan(run_id))
        self.over.add(run_id)

    def die_while_publishing(self, run_id: str) -> JobRun:
        """The files are in the sink, and nobody has noted it."""
        run = self.plan(run_id)
        self.work(run)
        with mock.patch.object(publication, "end_publication", side_effect=KilledError), pytest.raises(KilledError):
            run.commit()
        self.over.add(run_id)
        return run

    def live(self, run_id: str, fate: str) -> None:
        match fate:
            case "fails":
                self.fail(run_id)
            case "dies and is retried":
                self.die_while_publishing(run_id).commit()
            case _:
                self.run(run_id)

    def read_by(self) -> dict[str, set[str]]:
        position = read_position(self.folder("any"), "orders")
        assert {entry.progress for entry in position.runs} == {Progress.READ}
        return {entry.run: {Path(file.path).name for file in entry.files} for entry in position.runs}

    def check(self) -> None:
        """Every file's rows are in the sink once, whoever read it."""
        everything = rows(
            f"SELECT region, file, sum(amount), count(*) FROM '{self.root}/landing/*.parquet' GROUP BY ALL"
        )
        assert rows(f"SELECT region, file, amount, orders FROM '{self.root}/mart/*.parquet'") == everything


def arrivals(chance: random.Random) -> Iterator[list[str]]:
    """By hour what is delivered: its own files, or none; such as are late by some hours; such as came before."""
    came: list[str] = []
    late: list[str] = []
    for hour in range(HOURS):
        own = [f"h{hour:02d}-{part}.parquet" for part in range(chance.choice([0, 1, 1, 2, 3]))]
        now = [name for name in own if chance.random() > 0.2]
        now += [late.pop(0) for _ in range(len(late)) if chance.random() < 0.2]
        late += [name for name in own if name not in now]
        again = [chance.choice(came)] if came and chance.random() < 0.3 else []
        came += now
        yield now + again
    yield late


@pytest.fixture
def load(connect_server: ConnectEndpoint, tmp_path: Path) -> Load:
    (tmp_path / "landing").mkdir()
    return Load(connect_server, tmp_path)


def test_two_days_of_an_hourly_load_read_every_file_exactly_once(load: Load) -> None:
    chance = random.Random(SEED)  # noqa: S311 - the same days in every run
    *hours, at_last = arrivals(chance)
    fates = Counter[str]()
    for hour, names in enumerate(hours):
        for name in names:
            load.deliver(name)
        fate = chance.choices(["succeeds", "fails", "dies and is retried"], [8, 1, 1])[0]
        load.live(f"hour {hour}", fate)
        fates[fate] += 1
        if hour and chance.random() < 0.15:
            load.run(f"hour {chance.randrange(hour)}")
            fates["is cleared later"] += 1
    for name in at_last:
        load.deliver(name)
    load.run("backfill of hour 3")
    names_of = [[name for name in names if name.startswith(f"h{hour:02d}")] for hour, names in enumerate(hours)]
    delivered = [name for names in [*hours, at_last] for name in names]
    repeated = sum(number - 1 for number in Counter(delivered).values())
    late = len(set(delivered)) - len({name for names in names_of for name in names})
    assert fates == {"succeeds": 34, "fails": 9, "dies and is retried": 5, "is cleared later": 5}
    assert (repeated, late, len(at_last), sum(not names for names in names_of)) == (11, 21, 2, 15)
    assert sum(map(len, load.read_by().values())) == len(set(delivered)) == 77
    load.check()


@pytest.mark.sample
def test_two_runs_at_once_share_the_files_and_neither_waits(load: Load) -> None:
    load.deliver("a.parquet")
    first = load.plan("1")
    load.deliver("b.parquet")
    second = load.plan("2")
    for run in (second, first):
        load.work(run)
        run.commit()
    assert load.read_by() == {"1": {"a.parquet"}, "2": {"b.parquet"}}
    load.check()


@pytest.mark.sample
def test_a_run_that_is_cleared_after_others_replaces_its_own_rows_only(load: Load) -> None:
    load.deliver("a.parquet")
    load.run("1")
    load.deliver("b.parquet")
    load.run("2")
    load.run("1")
    assert load.read_by() == {"1": {"a.parquet"}, "2": {"b.parquet"}}
    load.check()


def test_a_failed_run_whose_files_another_has_read_publishes_nothing_when_it_goes_on(load: Load) -> None:
    load.deliver("a.parquet")
    failed = load.plan("1")
    load.work(failed)
    load.over.add("1")
    load.run("2")
    with pytest.raises(CommitError, match="are not its own any more"):
        failed.commit()
    load.run("1")  # cleared from `plan` on, it has nothing to do
    assert load.read_by() == {"1": set(), "2": {"a.parquet"}}
    load.check()


def test_nobody_reads_what_a_run_was_publishing_when_it_died_until_it_goes_on(load: Load) -> None:
    load.deliver("a.parquet")
    died = load.die_while_publishing("1")
    load.deliver("b.parquet")
    load.run("2")
    load.check()
    died.commit()
    assert load.read_by() == {"1": {"a.parquet"}, "2": {"b.parquet"}}
    load.check()
