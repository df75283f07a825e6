"""Sources survive the JSON in which Airflow renders their templates; tables are asked once, side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_abs import Files, IcebergTable
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.sources.pinned import PinnedTable
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.declared import pin_sources, read_declared
from airflow_abs.tables.kinds import to_declared
from airflow_abs.tables.source import Pin
from airflow_abs.task_groups.task_arguments import sink_asset

FOLDER = JobFolder(Path("/exchange"), "dag", "run", "job")
PIN = Pin("{}", PinnedTable("lake.db.t", "snapshot 7", "parquet", "{}", 0, 0, 0, 0), ())


@dataclass(frozen=True)
class SlowTable:
    """Gives its pin when another table is asked, too."""

    asked: Barrier

    def to_json(self) -> dict[str, Any]:
        return {}

    def pin(self, access: TableAccess) -> Pin:
        self.asked.wait(timeout=30)
        return PIN


@pytest.mark.parametrize(
    "source",
    [
        Files("/lake/orders", schema="id BIGINT"),
        IcebergTable("lake.db.t", snapshot="{{ params.snapshot }}", where="a = 1"),
        IcebergTable("lake.db.t", mode="overwrite", sort_by=["a"], files=2),  # type: ignore[arg-type]
    ],
)
def test_a_declared_source_comes_back_from_json(source: Any) -> None:
    assert read_declared(to_declared(source)) == source


def test_a_table_needs_a_catalog_and_a_namespace() -> None:
    with pytest.raises(ValueError, match=r"IcebergTable\('orders'\): expected catalog\.namespace\.table"):
        IcebergTable("orders")


def test_what_a_sink_cannot_be_told_is_refused() -> None:
    with pytest.raises(ValueError, match=r"IcebergTable\('lake\.db\.t'\): mode is 'error'; expected one of append"):
        IcebergTable("lake.db.t", mode="error")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"IcebergTable\('lake\.db\.t'\): sort_by is 'day'; expected a list"):
        IcebergTable("lake.db.t", sort_by="day")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"IcebergTable\('lake\.db\.t'\): files is 0; expected a number"):
        IcebergTable("lake.db.t", files=0)


def test_a_tables_asset_is_its_name_if_that_is_known_before_the_run() -> None:
    assert sink_asset(IcebergTable("lake.db.t")) == Asset("x-iceberg://lake/db.t")
    assert sink_asset(IcebergTable("lake.db.{{ params.table }}")) is None


def test_tables_are_asked_side_by_side_and_files_stay_as_they_are() -> None:
    files, together = Files("/lake/orders"), Barrier(2)
    sources = {"a": SlowTable(together), "b": files, "c": SlowTable(together)}
    found = pin_sources(sources, TableAccess(lambda conn_id: {}, Path), FOLDER)
    slow = {"kind": "tests.tables.test_declared.SlowTable"}
    pin = replace(PIN, pinned=replace(PIN.pinned, declared=slow))  # by which `decide` makes the table again
    assert found == {"a": pin, "b": files, "c": pin}
