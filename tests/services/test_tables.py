"""Tables in a real Airflow: a run is one version of each Delta table, and once in one of Spark's catalog, whatever is
cleared."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable as Library

from airflow_abs.demo.services import AirflowServices
from tests.services.watched_run import StartRun, WatchedRun
from tests.task_instances import clear_task, read_xcom

pytestmark = [pytest.mark.services, pytest.mark.spark]


def test_a_run_is_in_each_table_once_and_stays_so_when_it_is_cleared(
    airflow: AirflowServices, start_run: StartRun, folder: Path
) -> None:
    run = start_run("tables", 1)
    assert run.wait() == "success"
    expected = duckdb.sql(f"""
        SELECT DATE '2026-01-02' AS day, status, count(*) AS orders, sum(amount) AS amount
        FROM read_parquet('{folder}/data/orders/ds=2026-01-02/*.parquet') WHERE status <> 'P' GROUP BY ALL
    """)
    path = folder / "mart" / "delta" / "totals"
    columns = ["day", "status", "orders", "amount"]
    totals = Library(path).to_pyarrow_table().select(columns)
    assert sorted(map(str, totals.to_pylist())) == sorted(map(str, expected.to_arrow_table().to_pylist()))
    told = published(airflow, run, "sum.totals")
    assert (told["target"], told["version"], Library(path).version()) == (str(path), 1, 1)
    assert Library(folder / "mart" / "delta" / "sold").version() == 1
    rows = sorted(tuple(map(str, row)) for row in expected.fetchall())
    assert read_back(airflow, run) == rows
    assert published(airflow, run, "catalog.by_status")["changed"]
    assert files_left(folder / "exchange", folder / "data" / "orders", "2026-01-02")

    clear_task(airflow.api, run.dag_id, run.run_id, "sum.totals.commit", downstream=True)
    clear_task(airflow.api, run.dag_id, run.run_id, "catalog.plan", downstream=True)
    assert run.wait() == "success"
    assert (published(airflow, run, "sum.totals")["changed"], Library(path).version()) == (False, 1)
    assert read_back(airflow, run) == rows


def published(airflow: AirflowServices, run: WatchedRun, vertex: str) -> dict[str, object]:
    """What `commit` told of a sink."""
    told: dict[str, object] = read_xcom(airflow.api, run.dag_id, run.run_id, f"{vertex}.commit")[vertex.split(".")[1]]
    return told


def read_back(airflow: AirflowServices, run: WatchedRun) -> list[tuple[str, ...]]:
    """The rows that Spark's catalog shows."""
    return sorted(map(tuple, read_xcom(airflow.api, run.dag_id, run.run_id, "read_back")))


def files_left(exchange: Path, orders: Path, day: str) -> bool:
    """Whether a decision says that of all files those of this day were left."""
    reason = f"{len(list(orders.glob(f'ds={day}/*')))} of {len(list(orders.glob('ds=*/*')))} files"
    told = (each.read_text() for each in exchange.rglob("*decision*.json"))
    return any(reason in each and "left by days.day" in each for each in told)
