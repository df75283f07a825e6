"""A DAG from one Iceberg table to another, in a real Airflow: its rows are one snapshot, whatever is cleared."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from airflow_abs.demo.services import AirflowServices
from tests.services.conftest import lake_properties
from tests.task_instances import clear_task, read_xcom

pytestmark = [pytest.mark.services, pytest.mark.spark]

SECONDS = 500.0
COLUMNS = Schema(NestedField(1, "region", StringType()), NestedField(2, "amount", LongType()))
BY_REGION = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "region"))
OLD = [{"region": "west", "amount": 1}, {"region": "north", "amount": 2}]


@pytest.fixture
def totals(folder: Path) -> Iterator[Any]:
    """The table that is written; the one that is read is there, too."""
    catalog = load_catalog("lake", **lake_properties(folder))
    catalog.create_namespace("db")
    sales = catalog.create_table("db.sales", COLUMNS)
    rows = [{"region": [None, "north", "south"][number % 3], "amount": number} for number in range(100)]
    sales.append(pa.Table.from_pylist(rows, schema=sales.schema().as_arrow()))
    totals = catalog.create_table("db.totals", COLUMNS, partition_spec=BY_REGION)
    totals.append(pa.Table.from_pylist(OLD, schema=totals.schema().as_arrow()))
    yield totals
    catalog.close()


def test_a_run_from_table_to_table_is_one_snapshot_and_stays_so_when_it_is_cleared(
    airflow: AirflowServices, totals: Any
) -> None:
    dag_id, commit = "iceberg_tables", "job.totals.commit"
    airflow.api.wait_for_dag(dag_id, SECONDS)
    run_id = airflow.api.trigger_run(dag_id, datetime(2026, 1, 1, tzinfo=UTC))
    assert airflow.api.wait_for_run(dag_id, run_id, SECONDS) == "success"
    totals.refresh()
    snapshot = totals.current_snapshot()
    sums = {
        region: sum(number for number in range(11, 100) if number % 3 == rest)
        for rest, region in enumerate([None, "north", "south"])
    }
    assert {row["region"]: row["amount"] for row in totals.scan().to_arrow().to_pylist()} == {"west": 1, **sums}
    assert (snapshot.summary["airflow-abs.run"], len(totals.snapshots())) == (f"{dag_id}/{run_id}/job/totals", 2)
    published = read_xcom(airflow.api, dag_id, run_id, commit)["totals"]
    assert (published["target"], published["rows"], published["snapshot"]) == (
        "lake.db.totals",
        3,
        snapshot.snapshot_id,
    )

    clear_task(airflow.api, dag_id, run_id, commit, downstream=True)
    assert airflow.api.wait_for_run(dag_id, run_id, SECONDS) == "success"
    assert read_xcom(airflow.api, dag_id, run_id, commit)["totals"]["changed"] is False
    totals.refresh()
    assert len(totals.snapshots()) == 2
