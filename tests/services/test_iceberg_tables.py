"""The example DAG on Iceberg, in a real Airflow: a run is one snapshot of each table, whatever is cleared."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from airflow_abs.demo.services import AirflowServices
from tests.services.conftest import lake_properties
from tests.services.watched_run import StartRun
from tests.task_instances import clear_task, read_xcom

pytestmark = [pytest.mark.services, pytest.mark.spark]

OLD = {"day": date(2025, 12, 31), "region": "NORTH", "orders": 1, "revenue": Decimal("1.00")}


@pytest.fixture
def catalog(folder: Path) -> Iterator[Any]:
    catalog = load_catalog("lake", **lake_properties(folder))
    yield catalog
    catalog.close()


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in ("region", "orders", "revenue")) for row in table.to_pylist())


def test_a_run_is_one_snapshot_of_each_table_and_stays_so_when_it_is_cleared(
    airflow: AirflowServices, start_run: StartRun, folder: Path, catalog: Any
) -> None:
    first, second = start_run("iceberg_revenue", 0), start_run("iceberg_revenue", 1)
    assert first.wait() == "success"
    table = catalog.load_table("revenue.by_day")
    table.append(pa.Table.from_pylist([OLD], schema=table.schema().as_arrow()))  # of another writer, and month
    assert second.wait() == "success"
    expected = duckdb.sql(f"""
        SELECT ds AS day, region, count(*) AS orders, sum(amount) AS revenue
        FROM read_parquet('{folder}/data/orders/*/*.parquet') JOIN '{folder}/data/customers/*.parquet'
        USING (customer_id) WHERE status IN ('F', 'O') AND ds < '2026-01-03' GROUP BY ALL
    """)
    months = duckdb.sql(
        "SELECT region, sum(orders)::BIGINT AS orders, sum(revenue) AS revenue FROM expected GROUP BY 1"
    )
    by_day, by_month = (catalog.load_table(f"revenue.{name}") for name in ("by_day", "by_month"))
    in_days = rows_of(by_day.scan(row_filter="day >= '2026-01-01'").to_arrow())
    assert in_days == rows_of(expected.to_arrow_table())
    assert rows_of(by_month.scan().to_arrow()) == rows_of(months.to_arrow_table())
    assert len(by_day.scan(row_filter="day = '2025-12-31'").to_arrow()) == 1
    runs = [snapshot.summary["airflow-abs.run"].partition(":") for snapshot in by_month.snapshots()]
    assert [run for _, _, run in runs] == [f"iceberg_revenue/{run.run_id}/month" for run in (first, second)]
    assert len({installation for installation, _, _ in runs}) == 1
    told = read_xcom(airflow.api, second.dag_id, second.run_id, "month.by_month.commit")["by_month"]
    assert (told["target"], told["snapshot"]) == ("lake.revenue.by_month", by_month.current_snapshot().snapshot_id)

    clear_task(airflow.api, second.dag_id, second.run_id, "month.by_month.commit", downstream=True)
    assert second.wait() == "success"
    told = read_xcom(airflow.api, second.dag_id, second.run_id, "month.by_month.commit")["by_month"]
    assert told["changed"] is False
    assert len(catalog.load_table("revenue.by_month").snapshots()) == 2
