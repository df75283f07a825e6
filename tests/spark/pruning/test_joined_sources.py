"""Where a plain join shows that a source could be pruned, `plan` says so; and only if no row would change."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.pruned_by import VertexColumn
from airflow_abs.spark.compile.vertices import compile_vertices
from airflow_abs.spark.proof.prove import Proof, set_for_proof
from airflow_abs.spark.proof.prover import Prover
from airflow_abs.spark.pruning.joined_sources import JoinedColumn, find_joined_columns
from airflow_abs.testing import run_locally
from tests.job_runner import program_of
from tests.spark.proof.transforms import sql
from tests.spark.run.test_dynamic_pruning import KINDS, write_sales

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

SOURCE = "id BIGINT, store INT, day DATE"
INPUTS = {"dates": "d DATE, month INT", "stores": "store BIGINT, city STRING"}
DAY = ("day", "dates", "d")

SHOWN: dict[str, tuple[tuple[str, str, str], ...]] = {
    "SELECT id, month FROM {source} JOIN {dates} ON day = d": (DAY,),
    "SELECT id, month FROM {dates} JOIN {source} ON d = day": (DAY,),
    "SELECT id FROM {source} LEFT SEMI JOIN {dates} ON day = d": (DAY,),
    "SELECT id FROM {source} WHERE day IN (SELECT d FROM {dates})": (DAY,),
    "SELECT month, id FROM {dates} LEFT JOIN {source} ON day = d": (DAY,),
    "SELECT d FROM {dates} LEFT ANTI JOIN {source} ON day = d": (DAY,),
    "SELECT id FROM (SELECT * FROM {source} WHERE id > 3) JOIN (SELECT * FROM {dates} WHERE month = 1) ON day = d": (
        DAY,
    ),
    "SELECT id FROM {source} JOIN {dates} ON day = d AND id > month": (DAY,),
    "SELECT id, city FROM {source} s JOIN {dates} ON day = d LEFT JOIN {stores} t ON s.store = t.store": (DAY,),
    "SELECT id, city FROM {source} s LEFT JOIN {stores} t ON s.store = t.store JOIN {dates} ON day = d": (DAY,),
    "SELECT day, count(*) AS n FROM {source} JOIN {dates} ON day = d GROUP BY day": (DAY,),
    # a row of the source is needed whatever the other side has
    "SELECT id, month FROM {source} LEFT JOIN {dates} ON day = d": (),
    "SELECT id FROM {source} LEFT ANTI JOIN {dates} ON day = d": (),
    "SELECT id, d FROM {source} FULL JOIN {dates} ON day = d": (),
    "SELECT id FROM {source} WHERE id = 1 OR day IN (SELECT d FROM {dates})": (),
    # what is made of several rows, of which the join sees one
    "SELECT n FROM (SELECT day, count(*) AS n FROM {source} GROUP BY day) JOIN {dates} ON day = d": (),
    "SELECT n FROM (SELECT day, count(*) OVER (PARTITION BY store) AS n FROM {source}) JOIN {dates} ON day = d": (),
    "SELECT id FROM (SELECT * FROM {source} ORDER BY id LIMIT 3) JOIN {dates} ON day = d": (),
    # the other reading of the source has rows of its own
    "SELECT id FROM {source} JOIN {dates} ON day = d UNION ALL SELECT id FROM {source}": (),
    # other comparisons than of the two columns as they are
    "SELECT id FROM {source} JOIN {dates} ON day > d": (),
    "SELECT id FROM {source} JOIN {dates} ON day <=> d": (),
    "SELECT id FROM {source} JOIN {dates} ON month(day) = month": (),
    "SELECT id, city FROM {source} s JOIN {stores} t ON s.store = t.store": (),  # as numbers of the larger type
}


def find(session: Any, transform: Callable[..., Any]) -> list[JoinedColumn]:
    names = [name for name in inspect.signature(transform).parameters if name != "source"]
    graph = build_job_graph(
        [*(JobVertex(name, has_source=True) for name in names), JobVertex("step", has_source=True, has_sink=True)],
        [JobEdge(name, "step", name, Partitioning.BROADCAST) for name in names],
        128,
    )
    programs = {name: program_of(name, None, {}, Files("/nowhere", schema=INPUTS[name])) for name in names}
    programs["step"] = program_of("step", transform, {}, Files("/nowhere", schema=SOURCE), Files("/out"))
    compiled = compile_vertices(session, graph, programs)
    with set_for_proof(session):
        prover = Prover(session, graph, compiled, frozenset())
        return find_joined_columns(graph, compiled, Proof("step", None, (), prover.plan("step"), prover.markers))


@pytest.mark.parametrize("query", SHOWN)
def test_a_join_that_drops_other_rows_shows_its_columns(session: Any, query: str) -> None:
    expected = [JoinedColumn("step", own, VertexColumn(vertex, other)) for own, vertex, other in SHOWN[query]]
    assert find(session, sql(query)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_plan_says_what_could_be_written_and_is_silent_once_it_is(
    connect_server: ConnectEndpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    source = write_sales(kind, tmp_path, monkeypatch)

    def logged(**pruned: Any) -> list[str]:
        with DAG("joined"), AdaptiveSparkJob("job") as job:
            dates = AdaptiveSparkOperator(
                task_id="dates", sql="SELECT DATE'2026-01-03' AS d, 7L AS id FROM {source}", source=Files(str(one_row))
            )
            given = {column: dates.column(name) for column, name in pruned.items()}
            AdaptiveSparkOperator(
                task_id="sold",
                source=source(prune=given),
                # The table is partitioned by the day, and not by the number.
                sql="SELECT s.amount FROM {source} s JOIN {dates} t ON s.sold_date = t.d AND s.id = t.id",
                inputs={"dates": dates},
            )
        caplog.clear()
        with caplog.at_level(logging.INFO, "airflow_abs.spark.planning"):
            run_locally(job, 3, endpoint=connect_server)
        return [record.getMessage() for record in caplog.records if "prune=" in record.getMessage()]

    one_row = tmp_path / "one.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS n) TO '{one_row}'")
    assert logged() == [
        "vertex 'sold': joins its source on sold_date, by which the source is partitioned, with dates.d; with "
        "prune={'sold_date': dates.column('d')} on the source, only partitions with these values would be read and "
        "counted"
    ]
    assert logged(sold_date="d") == []
