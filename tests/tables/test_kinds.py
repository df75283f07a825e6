"""A table of any kind is found by its class, and no other class is ever loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, IcebergTable
from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.exchange.records.plan import PlannedSink
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.declared import find_targets, read_declared
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.kinds import kind_of, to_declared
from airflow_abs.tables.publishing.publication import publish_sink, publish_staged
from airflow_abs.tables.sink import Published, RunFiles

TARGET = TargetTable("shelf.books", "shelf", "append", "uuid", "{}")
PATH = "tests.tables.test_kinds.OwnTable"


@dataclass(frozen=True)
class OwnTable:
    """Somebody else's kind, which keeps nothing."""

    name: str
    mode: str = "append"
    asset_uri: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def target(self, access: TableAccess) -> TargetTable:
        return replace(TARGET, conn_id=self.name)

    @staticmethod
    def publish(
        target: TargetTable,
        run: RunFiles,
        access: TableAccess,
        on_step: Callable[[str], None],
    ) -> Published:
        on_step(run.identity)
        return Published(changed=True, details={"edition": 3, "rows": "the package counts them"})


def _no_connection(conn_id: str) -> Mapping[str, str]:
    raise AssertionError(conn_id)


NO_ACCESS = TableAccess(_no_connection, Path)


def test_our_kinds_have_words_and_those_of_others_the_path_of_their_class() -> None:
    assert to_declared(OwnTable("books")) == {"kind": PATH, "name": "books", "mode": "append", "asset_uri": None}
    assert to_declared(IcebergTable("lake.db.t"))["kind"] == kind_of(IcebergTable("lake.db.t")) == "iceberg"
    assert to_declared(Files("/lake/orders")) == {**Files("/lake/orders").to_json(), "kind": "files"}
    assert read_declared(to_declared(OwnTable("books"))) == OwnTable("books")


def test_a_class_that_workers_cannot_find_by_name_is_refused_as_the_dag_is_parsed() -> None:
    class Local(OwnTable):
        pass

    of_a_dag = type("HudiTable", (OwnTable,), {"__module__": "unusual_prefix_0f3a_daily"})
    with pytest.raises(JobGraphError, match=r"Local, a source or sink, is of module 'tests.tables.test_kinds', and"):
        kind_of(Local("books"))
    with pytest.raises(JobGraphError, match=r"of module 'unusual_prefix_0f3a_daily'.*put it into a package of its own"):
        kind_of(of_a_dag("books"))


def test_a_class_that_is_not_installed_is_named() -> None:
    with pytest.raises(TableError, match=r"tables of kind 'no_such_package.T' cannot be loaded: No module named"):
        read_declared({"kind": "no_such_package.T"})
    with pytest.raises(TableError, match="install the package that has their class where Airflow's workers run"):
        read_declared({"kind": "hudi"})


def test_a_target_knows_its_kind_and_is_published_by_it() -> None:
    target = find_targets({"t": OwnTable("shelf")}, NO_ACCESS)["t"]
    assert isinstance(target, TargetTable)
    assert (target.kind, target.conn_id) == (PATH, "shelf")
    steps: list[str] = []
    done = publish_staged(target, [], publisher=Publisher("dag/monday/job/t"), access=NO_ACCESS, on_step=steps.append)
    assert (done["edition"], done["rows"], done["target"]) == (3, 0, "shelf.books")
    assert steps == ["dag/monday/job/t"]


def test_a_record_that_names_a_class_which_the_dag_does_not_loads_nothing(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path, "dag", "monday", "job")
    sink = PlannedSink("t", "t.sink", None, replace(TARGET, kind="antigravity.Table"))
    with pytest.raises(TableError, match=r"planned as one of kind 'antigravity.Table', and the DAG declares 'iceberg'"):
        publish_sink(RunRecords(folder), "t", sink, NO_ACCESS, declared=["iceberg"])


def test_every_decision_and_commit_of_a_job_knows_the_kinds_of_all_its_sources_and_sinks() -> None:
    with DAG("dag") as dag, AdaptiveSparkJob("job", exchange="/exchange"):
        first = AdaptiveSparkOperator(task_id="first", source=IcebergTable("lake.db.s"), sink=OwnTable("books"))
        AdaptiveSparkOperator(task_id="second", inputs={"first": first.rebalance()}, sink=IcebergTable("lake.db.t"))
        AdaptiveSparkOperator(task_id="third", inputs={"first": first.rebalance()}, sink=Files("/mart"))
    for region in ("first", "second", "third"):
        assert dag.get_task(f"job.{region}.commit").table_kinds == ("iceberg", PATH)
        assert dag.get_task(f"job.{region}.decide").table_kinds == ("iceberg",)
