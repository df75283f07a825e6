"""TPC-H's 22 queries and ten of TPC-DS, as plain steps without any edge, against DuckDB.

The tables are small, so `tests.proof.queries.CONF` keeps Spark from broadcasting all of them. At which numbers of
subtasks: ``AIRFLOW_ABS_QUERIES_AT`` (3; 1, 3 and 8 with ``make test-proof``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_abs.core.graph.partitioning import Partitioning
from tests.proof.queries import QueryBench, describe_answer, read_queries
from tests.proof.tpcds import tables as tpcds
from tests.proof.tpch import tables as tpch

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

AT = [int(each) for each in os.environ.get("AIRFLOW_ABS_QUERIES_AT", "3").split(",")]
TABLES: Mapping[str, Callable[[], Mapping[str, Any]]] = {"tpch": tpch.build_tables, "tpcds": tpcds.build_tables}
QUERIES = {benchmark: read_queries(Path(__file__).parent / benchmark) for benchmark in TABLES}


def test_all_queries_are_there() -> None:
    assert [query.name for query in QUERIES["tpch"]] == [f"q{number:02}" for number in range(1, 23)]
    assert len(QUERIES["tpcds"]) == 10
    steps = [step for queries in QUERIES.values() for query in queries for step in query.steps]
    assert not [step.name for step in steps if not step.inputs]


@pytest.mark.spark
@pytest.mark.parametrize("benchmark", TABLES)
def test_every_query_gives_duckdbs_rows_without_any_edge(
    benchmark: str, connect_server: ConnectEndpoint, tmp_path_factory: pytest.TempPathFactory
) -> None:
    queries = QUERIES[benchmark]
    bench = QueryBench.prepare(connect_server, tmp_path_factory.mktemp(benchmark), TABLES[benchmark]())
    expected = bench.expect(queries)
    planned = bench.plan(queries)
    inputs = [entry for region in planned.plan.regions for entry in region.inputs]
    assert all(entry.inferred for entry in inputs)
    assert {entry.partitioning for entry in inputs} >= {Partitioning.HASH, Partitioning.BROADCAST, Partitioning.RESCALE}
    for parallelism in AT:
        found = bench.run(planned, parallelism)
        wrong = {query.name: describe_answer(found[query.result], expected[query.name]) for query in queries}
        assert {name: what for name, what in wrong.items() if what} == {}, f"at {parallelism}"
