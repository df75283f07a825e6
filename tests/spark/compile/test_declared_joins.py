"""Joins whose hot keys are spread: when that is allowed, and that every join type keeps its rows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.join_types import JoinType
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.storage.whole_files import write_json
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from tests.job_runner import JobRun, plan_run, program_of, run_job

pytestmark = pytest.mark.spark

SPARK_NAMES = {"SEMI": "left_semi", "ANTI": "left_anti"}
DUCKDB_NAMES = {"FULL": "FULL OUTER"}


def joined_as(kind: str) -> Callable[..., Any]:
    how = SPARK_NAMES.get(kind, kind.lower())

    def join(facts: Any, names: Any) -> Any:
        return facts.join(names, "key", how).withColumnRenamed("key", "k")

    return join


def counted(facts: Any, names: Any) -> Any:
    return facts.join(names, "key").groupBy("key").count()


def ranked(facts: Any, names: Any) -> Any:
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    rank = sf.row_number().over(Window.partitionBy("key").orderBy("id"))
    return facts.join(names, "key").withColumn("rank", rank)


def totalled(facts: Any, names: Any) -> Any:
    from pyspark.sql import functions as sf

    return facts.join(names, "key").select(sf.sum("id").alias("total"))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Facts in 6 files: one key has half of the rows, NULL a quarter; names, of which some have no fact."""
    lake = tmp_path_factory.mktemp("joins")
    for part in range(6):
        (lake / "facts").mkdir(exist_ok=True)
        query = f"""SELECT range AS id, md5(range::VARCHAR) AS note,
                           CASE WHEN range % 4 = 0 THEN NULL WHEN range % 2 = 1 THEN 7 ELSE range % 90 END::INT AS key
                    FROM range({part * 3000}, {(part + 1) * 3000})"""
        duckdb.sql(f"COPY ({query}) TO '{lake}/facts/part-{part}.parquet'")
    (lake / "names").mkdir()
    names = "SELECT range::INT AS key, 'name ' || range AS name FROM range(5, 200) UNION ALL SELECT NULL, 'nobody'"
    duckdb.sql(f"COPY ({names}) TO '{lake}/names/all.parquet'")
    return lake


def arguments(lake: Path, out: Path, transform: Any, join: str | None, **declared: Any) -> tuple[list[Any], ...]:
    vertices = [
        JobVertex("facts", has_source=True, max_parallelism=6),
        JobVertex("names", has_source=True),
        JobVertex("joined", has_sink=True),
    ]
    edges = [JobEdge(name, "joined", name, Partitioning.HASH, ("key",)) for name in ("facts", "names")]
    programs = [
        program_of("facts", None, {}, Files(str(lake / "facts"))),
        program_of("names", None, {}, Files(str(lake / "names"))),
        program_of("joined", transform, {}, sink=Files(str(out)), join=join, **declared),
    ]
    return vertices, edges, programs


def run(server: ConnectEndpoint, lake: Path, folder: Path, transform: Any, join: str | None) -> JobRun:
    given = arguments(lake, folder / "out", transform, join)
    return run_job(server, folder / "exchange", *given, target_bytes=60_000, max_parallelism=32)


@pytest.mark.parametrize("kind", [kind.value for kind in JoinType])
def test_every_join_type_keeps_its_rows(connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, kind: str) -> None:
    job = run(connect_server, lake, tmp_path, joined_as(kind), kind.lower())
    decision = job.decisions["joined"]
    assert len(job.reports["facts"]) > 3
    assert bool(decision.hot_subpartitions) is (kind not in ("RIGHT", "FULL"))  # the facts are the left side
    how = DUCKDB_NAMES.get(kind, kind)
    expected = duckdb.sql(
        f"SELECT key AS k, * EXCLUDE key FROM (SELECT * FROM '{lake}/facts/*.parquet' {how} JOIN "
        f"'{lake}/names/*.parquet' USING (key))"
    )
    columns = ", ".join(expected.columns)
    found = duckdb.sql(f"SELECT {columns} FROM '{tmp_path}/out/*.parquet'")
    assert found.columns == expected.columns
    assert duckdb.sql("FROM found EXCEPT ALL FROM expected").fetchall() == []
    assert duckdb.sql("FROM expected EXCEPT ALL FROM found").fetchall() == []
    if decision.hot_subpartitions:
        assert decision.max_over_mean < evenness_without(job) / 2


def evenness_without(job: JobRun) -> float:
    """Largest over mean if no subpartition had been distributed."""
    from dataclasses import replace

    regions = [replace(region, splittable=()) for region in job.plan.regions]
    whole = replace(job, plan=replace(job.plan, regions=tuple(regions)), decisions={})
    write_json(job.folder.plan_path, whole.plan.to_json())
    return whole.decide("joined").decision.max_over_mean


@pytest.mark.sample
@pytest.mark.parametrize(("transform", "found"), [(counted, "Aggregate"), (ranked, "Window"), (totalled, "Aggregate")])
def test_what_needs_whole_keys_is_never_split(
    connect_server: ConnectEndpoint,
    lake: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    transform: Any,
    found: str,
) -> None:
    with caplog.at_level(logging.INFO):
        job = arguments(lake, tmp_path, transform, "inner", per_subtask=True)
        planned = plan_run(connect_server, tmp_path / "exchange", *job).plan
    assert planned.region("joined").splittable == ()
    assert f"vertex 'joined': join='inner' is not spread over several subtasks: its plan holds {found}" in caplog.text


@pytest.mark.sample
def test_a_join_of_another_type_than_declared_is_refused(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    message = "vertex 'joined': join='left' is declared, but its plan holds a join of type 'inner'; correct one of"
    with pytest.raises(JobGraphError, match=message):
        plan_run(connect_server, tmp_path / "exchange", *arguments(lake, tmp_path, joined_as("INNER"), "left"))


@pytest.mark.sample
def test_nothing_is_split_without_a_word_of_the_author(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    plan = plan_run(connect_server, tmp_path / "exchange", *arguments(lake, tmp_path, joined_as("INNER"), None)).plan
    assert plan.region("joined").splittable == ()
