"""Delta tables in a real Airflow: a run is one version of each table, whatever is cleared."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable as Library

from airflow_abs.demo.services import AirflowServices
from tests.services.watched_run import StartRun
from tests.task_instances import clear_task, read_xcom

pytestmark = [pytest.mark.services, pytest.mark.spark]


def test_a_run_is_one_version_of_each_table_and_stays_so_when_it_is_cleared(
    airflow: AirflowServices, start_run: StartRun, folder: Path
) -> None:
    run = start_run("delta_tables", 1)
    assert run.wait() == "success"
    expected = duckdb.sql(f"""
        SELECT DATE '2026-01-02' AS day, status, count(*) AS orders, sum(amount) AS amount
        FROM read_parquet('{folder}/data/orders/ds=2026-01-02/*.parquet') WHERE status <> 'P' GROUP BY ALL
    """)
    path = folder / "mart" / "delta" / "totals"
    columns = ["day", "status", "orders", "amount"]
    totals = Library(path).to_pyarrow_table().select(columns)
    assert sorted(map(str, totals.to_pylist())) == sorted(map(str, expected.to_arrow_table().to_pylist()))
    told = read_xcom(airflow.api, run.dag_id, run.run_id, "sum.totals.commit")["totals"]
    assert (told["target"], told["version"], Library(path).version()) == (str(path), 1, 1)
    assert Library(folder / "mart" / "delta" / "sold").version() == 1

    clear_task(airflow.api, run.dag_id, run.run_id, "sum.totals.commit", downstream=True)
    assert run.wait() == "success"
    told = read_xcom(airflow.api, run.dag_id, run.run_id, "sum.totals.commit")["totals"]
    assert (told["changed"], Library(path).version()) == (False, 1)
