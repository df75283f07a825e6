"""A source of any kind gets its number of subtasks in the order of FLIP-379, from what is left of it on the day.

Flink's own sources answer with the number of their splits, up to the bound. Here no table answers:
`decide` counts the bytes and files that are left, within the same bounds. So the numbers are the same for every kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from airflow_abs import (
    AdaptiveSparkJob,
    AdaptiveSparkOperator,
    DeltaTable,
    Files,
    IcebergTable,
    JobOptions,
    PostgresTable,
    Table,
    VertexOptions,
)
from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.spark.connect.session import open_session
from airflow_abs.testing import run_locally
from tests.postgres_server import running_postgres
from tests.tables.catalog.warehouse import open_warehouse
from tests.tables.postgres.warehouse import Warehouse

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

FIRST, DAYS, ROWS_OF_A_DAY = date(2026, 1, 1), 8, 2_000
SALES = f"""
SELECT id, DATE '{FIRST}' + floor(id / {ROWS_OF_A_DAY}.0)::int AS day, md5(id::text) AS code
FROM (SELECT {{series}}) AS numbers
"""
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("code", pa.string())])
ON_MANY_SLOTS = {"slots": 64}  # a single wave, which is never filled up
KINDS = [
    "files",
    pytest.param("iceberg", marks=pytest.mark.sample),
    "delta",
    "catalog",
    pytest.param("postgres", marks=pytest.mark.cluster),
]


@contextmanager
def sold(kind: str, endpoint: ConnectEndpoint, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What declares a table of the kind as a source: eight days, a file or more each, of about as many bytes."""
    sales = duckdb.sql(f"SELECT * FROM ({SALES.format(series=f'unnest(range({DAYS * ROWS_OF_A_DAY})) AS id')})")
    table, place = sales.to_arrow_table().cast(SCHEMA), str(folder / "sales")
    match kind:
        case "files":
            pq.write_to_dataset(table, place, partition_cols=["day"])
            yield lambda **arguments: Files(place, **arguments)
        case "iceberg":
            lake = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
            monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": lake}))
            catalog = load_catalog("lake", **lake)
            catalog.create_namespace("db")
            created = catalog.create_table("db.sales", SCHEMA)
            with created.update_spec() as update:
                update.add_identity("day")
            created.append(table)
            catalog.close()
            yield lambda **arguments: IcebergTable("lake.db.sales", **arguments)
        case "delta":
            write_deltalake(place, table, partition_by=["day"])
            yield lambda **arguments: DeltaTable(place, **arguments)
        case "catalog":
            with open_session(endpoint) as session, open_warehouse(session, folder / "warehouse") as warehouse:
                warehouse.create("sales", SCHEMA, ["day"])
                warehouse.insert("sales", table)
                yield lambda **arguments: Table(f"{warehouse.database}.sales", **arguments)
        case "postgres":
            with running_postgres() as port:
                server = {"host": "127.0.0.1", "port": port, "login": "airflow", "schema": "postgres"}
                monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", json.dumps({"conn_type": "postgres", **server}))
                series = f"generate_series(0::bigint, {DAYS * ROWS_OF_A_DAY - 1}) AS id"
                wide = f"SELECT rows.*, repeat('x', 1000) AS wide FROM ({SALES.format(series=series)}) AS rows"
                Warehouse(port, "postgres").execute(f"CREATE TABLE sales AS {wide}")  # nine ranges, a file each
                yield lambda **arguments: PostgresTable("warehouse", "sales", columns=SCHEMA.names, **arguments)


def decide(
    endpoint: ConnectEndpoint,
    source: Any,
    options: Mapping[str, Any],
    vertex: VertexOptions | None = None,
    *,
    pruned_to: Path | None = None,
    **arguments: Any,
) -> RegionDecision:
    """How `sold` was decided, on the fifth day."""
    of_job = {name: options[name] for name in ("target_bytes", "max_parallelism") if name in options}
    others = JobOptions(**{name: value for name, value in options.items() if name not in of_job})
    with DAG("sold"), AdaptiveSparkJob("job", options=others, **of_job) as job:
        if pruned_to is not None:
            days = AdaptiveSparkOperator(task_id="days", source=Files(str(pruned_to)))
            source = source(prune={"day": days.column("d")})
        AdaptiveSparkOperator(task_id="sold", source=source, options=vertex, **arguments)
    day = FIRST + timedelta(days=DAYS // 2)
    return run_locally(job, None, endpoint=endpoint, logical_date=str(day))["sold"].decision


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_bytes_slots_interval_and_pruning_give_every_kind_the_same_number(
    connect_server: ConnectEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with sold(kind, connect_server, tmp_path, monkeypatch) as source:
        whole = decide(connect_server, source(), ON_MANY_SLOTS)
        (held,) = (entry for entry in whole.inputs if entry.kind == "source")
        fifth = ON_MANY_SLOTS | {"target_bytes": -(-held.bytes // 5)}

        def number(vertex: VertexOptions | None = None, **options: Any) -> int:
            return decide(connect_server, source(), fifth | options, vertex).parallelism

        # The target: 5 of one fifth, 3 of two fifths; 1 byte each asks for more than there are files.
        assert (number(), number(target_bytes=2 * fifth["target_bytes"])) == (5, 3)
        assert number(target_bytes=1) == held.parts >= DAYS
        # The upper bound: the default of sources, else the job's maximum, else its parallelism; the vertex's own last.
        assert number(default_source_parallelism=4, max_parallelism=100) == 4
        assert number(max_parallelism=3) == 3
        assert number(parallelism=2) == 2
        assert number(VertexOptions(max_parallelism=2), default_source_parallelism=4) == 2
        assert number(VertexOptions(max_parallelism=6), default_source_parallelism=9, max_parallelism=3) == 5
        # Slots: the second wave of five on three is filled.
        assert number(slots=3) == 6
        # The data interval: half of the days are 2.5 fifths.
        if kind == "files":
            sql = "SELECT * FROM {source} WHERE day >= '{{ ds }}'"
            half = decide(connect_server, source(), fifth, sql=sql)
        else:
            half = decide(connect_server, source(where="day >= '{{ ds }}'"), fifth)
        assert half.parallelism == 3
        # Values of a dynamic filter: two of eight days are 1.25 fifths. What PostgreSQL holds is copied before.
        if kind != "postgres":
            pq.write_table(pa.table({"d": [FIRST, FIRST + timedelta(days=6)]}), tmp_path / "days.parquet")
            few = decide(connect_server, source, fifth, pruned_to=tmp_path / "days.parquet")
            assert few.parallelism == 2
            assert " left by days.d -> 2 subtasks" in few.reason
