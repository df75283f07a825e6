"""Sinks with partitions, sorted files and a number of files, written by several subtasks and read back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from tests.job_runner import JobRun, program_of, run_job

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, customer BIGINT, day DATE, region STRING"
ORDERS = """
    SELECT i AS id, i % 40 AS customer,
        CASE WHEN i % 9 = 0 THEN NULL ELSE DATE '2026-01-01' + (i % 3)::INT END AS day,
        CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN 'no=r/th' ELSE 'south' END AS region
    FROM range(400) t(i)
"""


def later(orders: Any, first: str) -> Any:
    return orders.where(f"day >= DATE '{first}'").withColumn("id", -orders.id)


def publish(
    endpoint: ConnectEndpoint, root: Path, parallelism: int, run_id: str, first: str | None = None, **sink: Any
) -> JobRun:
    """``orders -- hash(customer) --> kept --> sink``; with `first` only days from it on, with negative ids."""
    (root / "orders").mkdir(exist_ok=True)
    duckdb.sql(f"COPY ({ORDERS}) TO '{root}/orders/part.parquet'")
    kept = program_of(
        "kept", later if first else None, {"first": first} if first else {}, sink=Files(f"{root}/out", **sink)
    )
    return run_job(
        endpoint,
        root / "exchange",
        [JobVertex("orders", has_source=True), JobVertex("kept", parallelism, has_sink=True)],
        [JobEdge("orders", "kept", "orders", Partitioning.HASH, ("customer",))],
        [program_of("orders", None, {}, Files(f"{root}/orders", schema=SCHEMA)), kept],
        run_id=run_id,
    )


def published(root: Path) -> list[tuple[Any, ...]]:
    there = {part.partition("=")[0] for path in (root / "out").rglob("part-*") for part in path.parts if "=" in part}
    known = {name: kind for name, kind in (("day", "DATE"), ("region", "VARCHAR")) if name in there}
    types = f", hive_types = {known}".replace("'DATE'", "DATE").replace("'VARCHAR'", "VARCHAR") if known else ""
    files = f"read_parquet('{root}/out/**/part-*', hive_partitioning = {bool(known)}{types})"
    return duckdb.sql(f"SELECT id, customer, day, region FROM {files} ORDER BY id").fetchall()


def expected(query: str = f"FROM ({ORDERS})") -> list[tuple[Any, ...]]:
    return duckdb.sql(f"SELECT id, customer, day, region FROM ({query}) ORDER BY id").fetchall()


@pytest.mark.parametrize("parallelism", [1, 3, 8])
def test_only_the_partitions_of_the_run_are_replaced_at_any_fan_out(
    connect_server: ConnectEndpoint, tmp_path: Path, parallelism: int
) -> None:
    sink = {"mode": "overwrite_partitions", "partition_by": ["day", "region"]}
    publish(connect_server, tmp_path, parallelism, "first", **sink)
    assert published(tmp_path) == expected()
    assert (tmp_path / "out" / "day=__HIVE_DEFAULT_PARTITION__" / "region=south").is_dir()
    publish(connect_server, tmp_path, parallelism, "second", first="2026-01-03", **sink)
    kept, new = "day IS NULL OR day < DATE '2026-01-03'", "day >= DATE '2026-01-03'"
    replaced = (
        f"SELECT * FROM ({ORDERS}) WHERE {kept} UNION ALL SELECT * REPLACE (-id AS id) FROM ({ORDERS}) WHERE {new}"
    )
    assert published(tmp_path) == expected(replaced)


@pytest.mark.sample
def test_files_are_few_and_sorted_and_hold_one_partition_each(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    publish(connect_server, tmp_path, 2, "run", partition_by=["day"], sort_by=["customer", "id"], files=1)
    assert published(tmp_path) == expected()
    folders: dict[str, list[Path]] = {}
    for path in (tmp_path / "out").rglob("part-*"):
        folders.setdefault(path.parent.name, []).append(path)
    # three days and NULL, each with at most a file of each of two subtasks
    assert {name: len(paths) for name, paths in folders.items()} == dict.fromkeys(folders, 2)
    assert len(folders) == 4
    for path in (path for paths in folders.values() for path in paths):
        rows = pq.ParquetFile(path).read().to_pylist()
        assert [(row["customer"], row["id"]) for row in rows] == sorted((row["customer"], row["id"]) for row in rows)
        assert len(rows) > 1


def test_a_subtask_writes_so_many_files_without_partitions_too(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    publish(connect_server, tmp_path, 2, "run", files=3)
    assert len(list((tmp_path / "out").glob("part-*"))) == 6
    assert published(tmp_path) == expected()


ODD = pa.schema({"a": pa.string(), "b": pa.string(), "n": pa.int64(), "m": pa.map_(pa.string(), pa.int64())})


def publish_odd(
    endpoint: ConnectEndpoint, root: Path, transform: Any = None, **sink: Any
) -> list[list[dict[str, Any]]]:
    """Rows whose texts are "" and NULL, with a map; those of each file that was published."""
    pairs = [(None, "x"), ("", "w"), (None, "w"), ("", "x"), ("q", ""), ("q", None)]
    odd = [{"a": a, "b": b, "n": n, "m": [("k", n)]} for n, (a, b) in enumerate(pairs * 20)]
    pq.write_table(pa.Table.from_pylist(odd, schema=ODD), root / "odd.parquet")
    program = program_of("odd", transform, {}, Files(f"{root}/odd.parquet"), Files(f"{root}/out", **sink))
    run_job(endpoint, root / "exchange", [JobVertex("odd", has_source=True, has_sink=True)], [], [program])
    return [pq.ParquetFile(path).read().to_pylist() for path in (root / "out").rglob("part-*")]


def test_sorted_files_of_two_partitions_whose_texts_are_empty_or_null(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    files = publish_odd(connect_server, tmp_path, partition_by=["a", "b"], sort_by=["n"])
    numbers = [[row["n"] for row in rows] for rows in files]
    assert all(each == sorted(each) for each in numbers)
    assert sorted(number for each in numbers for number in each) == list(range(120))


@pytest.mark.parametrize("column", ["m", "parse_json(CAST(n AS STRING)) AS m"], ids=["map", "variant"])
def test_several_files_of_a_partition_hold_columns_that_spark_cannot_hash(
    connect_server: ConnectEndpoint, tmp_path: Path, column: str
) -> None:
    files = publish_odd(
        connect_server, tmp_path, lambda odd: odd.selectExpr("b", "n", column), partition_by=["b"], files=2
    )
    assert sum(map(len, files)) == 120


def test_a_run_without_rows_replaces_no_partition(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    sink = {"mode": "overwrite_partitions", "partition_by": ["day"]}
    publish(connect_server, tmp_path, 2, "first", **sink)
    publish(connect_server, tmp_path, 2, "second", first="2030-01-01", **sink)
    assert published(tmp_path) == expected()


@pytest.mark.sample
def test_the_next_job_reads_the_partitions_as_columns(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    publish(connect_server, tmp_path, 3, "first", partition_by=["day", "region"])
    source = Files(f"{tmp_path}/out", schema="id BIGINT, customer BIGINT, day DATE, region STRING")
    run_job(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("again", has_source=True, has_sink=True)],
        [],
        [program_of("again", None, {}, source, Files(f"{tmp_path}/again"))],
        run_id="next",
    )
    found = duckdb.sql(f"SELECT id, customer, day, region FROM '{tmp_path}/again/*.parquet' ORDER BY id").fetchall()
    assert found == expected()
