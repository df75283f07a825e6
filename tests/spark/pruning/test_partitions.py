"""Filters on partition columns prune the listing: by Spark's own optimiser, and never more than Spark reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobVertex
from airflow_abs.exchange.sources.files import Files
from tests.job_runner import plan_run, program_of, run_job

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

NULL = "__HIVE_DEFAULT_PARTITION__"
PARTITIONS = [
    "ds=2026-01-01/st=a",
    "ds=2026-01-02/st=b",
    "ds=2026-01-03/st=a%3Ab",
    f"ds={NULL}/st=a",
    f"ds=2026-01-05/st={NULL}",
    "ds=2026-01-06/st=a,b",
]
"""Each has one row, of its number here. What holds a comma is always read."""


def of_sql(days: Any) -> Any:
    return days.sparkSession.sql("SELECT n FROM {d} WHERE year(ds) = 2026 AND ds <> '2026-01-01'", d=days)


def renamed(days: Any) -> Any:
    return days.withColumnRenamed("ds", "day").select("n", "day").where("n >= 0 AND day = '2026-01-02'")


DAYS_OF_MONTH = [f"2026-01-{day:02}" for day in range(2, 20)]

# transform, numbers of the partitions that are read, numbers of the rows
CASES: dict[str, tuple[Callable[[Any], Any], list[int], list[int]]] = {
    "by_range": (lambda d: d.where("ds >= '2026-01-02'"), [1, 2, 4, 5], [1, 2, 4, 5]),
    "by_null": (lambda d: d.where("ds IS NULL"), [3, 5], [3]),
    "by_escaped_value": (lambda d: d.where("st = 'a:b'"), [2, 5], [2]),
    "by_a_value_with_a_comma": (lambda d: d.where("st IN ('a,b', 'q')"), [0, 1, 3, 5], [5]),
    "by_none_of_them": (lambda d: d.where("NOT (st IN ('a,b', 'q'))"), [0, 1, 2, 3, 4, 5], [0, 1, 2, 3]),
    "by_one_or_other": (lambda d: d.where("ds = '2026-01-02' OR st = 'a'"), [0, 1, 3, 5], [0, 1, 3]),
    "by_many": (lambda d: d.where(d.ds.isin(DAYS_OF_MONTH)), [1, 2, 4, 5], [1, 2, 4, 5]),
    "of_two_scans": (lambda d: d.where("ds = '2026-01-01'").union(d.where("st = 'b'")), [0, 1, 5], [0, 1]),
    "beside_a_whole_scan": (lambda d: d.where("st = 'b'").union(d), [0, 1, 2, 3, 4, 5], [0, 1, 1, 2, 3, 4, 5]),
    "by_nothing_that_is_there": (lambda d: d.where("ds = '2030-01-01'"), [5], []),
    "by_sql": (of_sql, [1, 2, 4, 5], [1, 2, 4, 5]),
    "by_a_renamed_column": (renamed, [1, 5], [1]),
}


def make_lake(folder: Path) -> None:
    for number, partition in enumerate(PARTITIONS):
        (folder / partition).mkdir(parents=True)
        duckdb.sql(f"COPY (SELECT {number}::BIGINT AS n) TO '{folder / partition}/part.parquet'")


@pytest.mark.sample
def test_a_partition_that_no_row_is_read_of_is_left_out(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    make_lake(tmp_path / "lake")
    run = run_job(
        connect_server,
        tmp_path / "exchange",
        [JobVertex(name, has_source=True, has_sink=True) for name in CASES],
        [],
        [
            program_of(name, transform, {}, Files(f"{tmp_path}/lake"), Files(f"{tmp_path}/out/{name}"))
            for name, (transform, _, _) in CASES.items()
        ],
        target_bytes=1,
    )
    for name, (_, read, rows) in CASES.items():
        (source,) = run.plan.region(name).sources
        kept = [number for number, partition in enumerate(PARTITIONS) if partition not in source.left_out]
        assert kept == read, name
        found = duckdb.sql(f"SELECT n FROM '{tmp_path}/out/{name}/*.parquet' ORDER BY 1").fetchall()
        assert found == [(number,) for number in rows], name
        if len(kept) < len(PARTITIONS):
            assert f"({len(kept)} of 6 partitions read)" in run.decisions[name].reason


def with_metadata(days: Any) -> Any:
    return days.select("n", "_metadata.file_name")


def test_metadata_of_columns_that_spark_gives_in_another_order_is_refused(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    make_lake(tmp_path / "lake")
    source = Files(f"{tmp_path}/lake", schema="ds DATE, n BIGINT, st STRING")
    with pytest.raises(JobGraphError) as caught:
        plan_run(
            connect_server,
            tmp_path / "exchange",
            [JobVertex("days", has_source=True)],
            [],
            [program_of("days", with_metadata, {}, source)],
        )
    assert str(caught.value) == (
        "source days.source: the transform reads _metadata, which Spark has only where it gives the columns as they "
        "are declared (ds, n, st), and it puts those of partition folders last; declare them last, in the order of "
        "the folders"
    )
