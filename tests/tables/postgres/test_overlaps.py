"""No run reads a table that it publishes to; what views and queries read, only the server knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_abs import PostgresTable
from airflow_abs.core.errors import JobGraphError
from airflow_abs.tables.declared import find_targets
from airflow_abs.tables.overlaps import DeclaredJob, check_overlaps, check_same_tables
from tests.tables.postgres.warehouse import Warehouse

pytestmark = pytest.mark.cluster

TABLES = """
CREATE TABLE t (id int, day text);
CREATE TABLE other (id int, day text);
CREATE VIEW of_t AS SELECT * FROM t;
CREATE VIEW of_view AS SELECT o.id FROM other o WHERE id IN (SELECT id FROM of_t);
CREATE TABLE parted (id int, day text) PARTITION BY LIST (day);
CREATE TABLE "Monday 1" PARTITION OF parted FOR VALUES IN ('monday');
CREATE TABLE rest PARTITION OF parted DEFAULT PARTITION BY LIST (id);
CREATE TABLE rest_all PARTITION OF rest DEFAULT;
"""


@pytest.fixture
def tables(warehouse: Warehouse) -> Warehouse:
    warehouse.execute(TABLES)
    return warehouse


def check(tables: Warehouse, folder: Path, sink: Mapping[str, str], source: Mapping[str, str]) -> None:
    """As `plan` does."""
    job = DeclaredJob(
        "j",
        "/exchange",
        {"in": PostgresTable("warehouse", **source)},  # type: ignore[arg-type]
        {"out": PostgresTable("warehouse", **sink)},  # type: ignore[arg-type]
    )
    check_overlaps(job, is_rendered=True)
    written = tables.target(**sink).ids
    check_same_tables(job, {"out": written}, {"in": tables.land(folder, **source).ids})


@pytest.mark.parametrize(
    ("sink", "source"),
    [
        ({"table": "t", "mode": "overwrite"}, {"query": "SELECT * FROM t"}),
        ({"table": "t"}, {"query": "SELECT coalesce(max(id), 0) AS top FROM public.t"}),
        ({"table": "t"}, {"query": "WITH a AS (SELECT 1 AS id) SELECT * FROM a WHERE EXISTS (SELECT FROM t)"}),
        ({"table": "t", "mode": "overwrite"}, {"table": "of_t", "where": "day = 'monday'"}),
        ({"table": "t"}, {"table": "of_view"}),
        ({"table": "parted", "mode": "overwrite"}, {"table": '"Monday 1"'}),
        ({"table": "parted"}, {"table": "rest_all"}),
        ({"table": "rest_all"}, {"table": "parted"}),
        ({"table": "rest"}, {"query": "SELECT * FROM parted WHERE day <> 'monday'"}),
    ],
    ids=str,
)
def test_a_run_reads_none_of_its_own_rows_through_a_view_a_query_or_a_partition(
    tables: Warehouse, tmp_path: Path, sink: Mapping[str, str], source: Mapping[str, str]
) -> None:
    with pytest.raises(JobGraphError, match=r"the sink of vertex 'out' \(.*\) is the table that vertex 'in' .* reads"):
        check(tables, tmp_path, sink, source)


@pytest.mark.parametrize(
    ("sink", "source"),
    [
        ({"table": "t", "mode": "overwrite"}, {"query": "SELECT * FROM other"}),
        ({"table": "t"}, {"table": "of_t", "where": "day < 'monday'"}),
        ({"table": "t"}, {"query": "SELECT day, count(*) AS n FROM t GROUP BY day", "where": "day < 'monday'"}),
        ({"table": '"Monday 1"', "mode": "overwrite"}, {"query": "SELECT * FROM parted WHERE day = 'tuesday'"}),
        ({"table": "rest"}, {"table": '"Monday 1"'}),
    ],
    ids=str,
)
def test_other_rows_of_the_table_may_be_read(
    tables: Warehouse, tmp_path: Path, sink: Mapping[str, str], source: Mapping[str, str]
) -> None:
    check(tables, tmp_path, sink, source)


def test_a_table_and_a_partition_of_it_are_not_two_sinks(tables: Warehouse) -> None:
    sinks = {"a": PostgresTable("warehouse", "parted", mode="overwrite"), "b": PostgresTable("warehouse", "rest_all")}
    with pytest.raises(JobGraphError, match=r"of vertices 'a' and 'b' are one table .*, or a table and a partition of"):
        find_targets(sinks, tables.access)
    apart = {"a": PostgresTable("warehouse", '"Monday 1"'), "b": PostgresTable("warehouse", "rest")}
    assert set(find_targets(apart, tables.access)) == {"a", "b"}
