"""Joins whose hot keys are spread, declared or not: every join type keeps its rows, whoever wrote them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.join_types import JoinType
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import StaleManifestError
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


def arguments(
    lake: Path, out: Path, transform: Any, join: str | None = None, producers: int = 6, **declared: Any
) -> tuple[list[Any], ...]:
    vertices = [
        JobVertex("facts", has_source=True, max_parallelism=producers),
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


def run(server: ConnectEndpoint, lake: Path, folder: Path, transform: Any, **given: Any) -> JobRun:
    job = arguments(lake, folder / "out", transform, **given)
    return run_job(server, folder / "exchange", *job, target_bytes=60_000, max_parallelism=32)


@pytest.mark.parametrize("kind", [kind.value for kind in JoinType])
def test_every_join_type_keeps_its_rows(connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, kind: str) -> None:
    job = run(connect_server, lake, tmp_path, joined_as(kind), join=kind.lower())
    assert len(job.reports["facts"]) > 3
    assert bool(job.decisions["joined"].hot_subpartitions) is (kind not in ("RIGHT", "FULL"))  # facts are on the left
    assert_rows_of_the_join(job, lake, tmp_path, kind)


def assert_rows_of_the_join(job: JobRun, lake: Path, folder: Path, kind: str) -> None:
    decision = job.decisions["joined"]
    how = DUCKDB_NAMES.get(kind, kind)
    expected = duckdb.sql(
        f"SELECT key AS k, * EXCLUDE key FROM (SELECT * FROM '{lake}/facts/*.parquet' {how} JOIN "
        f"'{lake}/names/*.parquet' USING (key))"
    )
    columns = ", ".join(expected.columns)
    found = duckdb.sql(f"SELECT {columns} FROM '{folder}/out/*.parquet'")
    assert found.columns == expected.columns
    assert duckdb.sql("FROM found EXCEPT ALL FROM expected").fetchall() == []
    assert duckdb.sql("FROM expected EXCEPT ALL FROM found").fetchall() == []
    if decision.hot_subpartitions:
        assert decision.max_over_mean < evenness_without(job) / 2


@pytest.mark.sample
def test_what_one_subtask_wrote_is_spread_without_a_word_of_the_author(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    """Half of the facts have one key, a quarter has none: both subpartitions are hot."""
    job = run(connect_server, lake, tmp_path, joined_as("LEFT"), producers=1)
    assert len(job.reports["facts"]) == 1
    decision = job.decisions["joined"]
    parts = [subtask.hot_part for subtask in decision.subtasks if subtask.hot_part]
    assert len(decision.hot_subpartitions) == 2
    assert {part.share.producer for part in parts if part.share} == {0}
    assert decision.max_over_mean < 1.3
    assert_rows_of_the_join(job, lake, tmp_path, "LEFT")


def test_a_share_of_rows_that_were_written_again_is_not_read(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    """They may be in other places: one part would have some of them twice, another one never."""
    job = arguments(lake, tmp_path / "out", joined_as("LEFT"), producers=1)
    planned = plan_run(connect_server, tmp_path / "exchange", *job, target_bytes=60_000, max_parallelism=32)
    for region in ("facts", "names"):
        asyncio.run(planned.run_region(region))
    subtasks = planned.decide("joined").decision.subtasks
    shared = next(each for each in subtasks if each.hot_part and each.hot_part.share)
    asyncio.run(planned.run_subtask("facts", 0, attempt=2))
    message = (
        r"reads share \d of \d+ of producer 0 of facts by the places of rows .* expected attempt 1, found 2; clear"
    )
    with pytest.raises(StaleManifestError, match=message):
        asyncio.run(planned.run_subtask("joined", shared.index))


def evenness_without(job: JobRun) -> float:
    """Largest over mean if no subpartition had been distributed."""
    regions = [replace(region, splittable=()) for region in job.plan.regions]
    whole = replace(job, plan=replace(job.plan, regions=tuple(regions)), decisions={})
    write_json(job.folder.plan_path, whole.plan.to_json())
    return whole.decide("joined").decision.max_over_mean


@pytest.mark.sample
@pytest.mark.parametrize(("transform", "found"), [(counted, "an aggregate"), (ranked, "a window")])
def test_what_needs_whole_keys_is_never_split(
    connect_server: ConnectEndpoint,
    lake: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    transform: Any,
    found: str,
) -> None:
    with caplog.at_level(logging.WARNING):
        job = arguments(lake, tmp_path, transform, "inner")
        planned = plan_run(connect_server, tmp_path / "exchange", *job).plan.region("joined")
    assert planned.splittable == ()
    assert all(entry.kept_whole.startswith(found) for entry in planned.inputs)
    assert (
        f"vertex 'joined': join='inner' is declared, and a hot key is not spread over several subtasks: {found}"
        in caplog.text
    )


def test_other_rows_in_each_part_are_never_split(connect_server: ConnectEndpoint, lake: Path, tmp_path: Path) -> None:
    job = arguments(lake, tmp_path, joined_as("INNER"), deterministic=False)
    planned = plan_run(connect_server, tmp_path / "exchange", *job).plan.region("joined")
    assert planned.splittable == ()
    assert {entry.kept_whole for entry in planned.inputs} == {"joined gives other rows when it runs again"}


def test_rows_whose_place_in_a_file_is_hidden_are_never_split(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    vertices, edges, (facts, *programs) = arguments(lake, tmp_path, joined_as("LEFT"))
    hiding = replace(facts, transform=lambda source: source.withColumnRenamed("note", "_Metadata"))
    planned = plan_run(connect_server, tmp_path / "exchange", vertices, edges, [hiding, *programs]).plan
    (entry,) = (each for each in planned.region("joined").inputs if each.region == "facts")
    assert entry.kept_whole == "a column _Metadata of it hides the positions of rows in files"
    assert planned.region("joined").splittable == ()


@pytest.mark.sample
def test_a_join_of_another_type_than_declared_is_refused(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    message = "vertex 'joined': join='left' is declared, but its plan holds a join of type 'inner'; correct one of"
    with pytest.raises(JobGraphError, match=message):
        plan_run(connect_server, tmp_path / "exchange", *arguments(lake, tmp_path, joined_as("INNER"), "left"))


def test_a_step_that_runs_in_the_subtasks_of_a_join_does_not_keep_its_keys_whole(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    vertices, edges, programs = arguments(lake, tmp_path, joined_as("INNER"))
    vertices = [*vertices[:2], JobVertex("joined"), JobVertex("priced", has_sink=True)]
    edges = [*edges, JobEdge("joined", "priced", "rows", Partitioning.INFERRED)]
    programs = [
        *programs[:2],
        program_of("joined", joined_as("INNER"), {}),
        program_of("priced", lambda rows: rows.where("id > 3"), {}, sink=Files(str(tmp_path / "out"))),
    ]
    given = {"target_bytes": 60_000, "max_parallelism": 32, "chaining": True}
    job = run_job(connect_server, tmp_path / "exchange", vertices, edges, programs, **given)
    assert [region.name for region in job.plan.regions] == ["facts", "names", "priced"]
    assert job.decisions["priced"].hot_subpartitions
    joined = f"'{lake}/facts/*.parquet' JOIN '{lake}/names/*.parquet' USING (key)"
    expected = sorted(duckdb.sql(f"SELECT id, name FROM {joined} WHERE id > 3").fetchall())
    assert sorted(duckdb.sql(f"SELECT id, name FROM '{tmp_path}/out/*.parquet'").fetchall()) == expected
