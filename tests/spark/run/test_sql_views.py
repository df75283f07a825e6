"""SQL over DataFrames in many subtasks at once: each reads its own rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.run.work import rename_views
from tests.job_runner import program_of, run_job

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark


def by_sql(numbers: Any) -> Any:
    inner = numbers.sparkSession.sql("SELECT id, id % 10 AS digit FROM {numbers}", numbers=numbers)
    return numbers.sparkSession.sql("SELECT id, digit FROM {inner} WHERE digit < 9", inner=inner)


def test_subtasks_that_run_sql_at_the_same_time_do_not_read_each_others_rows(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    duckdb.sql(f"COPY (SELECT range AS id FROM range(1000)) TO '{tmp_path}/numbers.parquet' (FORMAT parquet)")
    run_job(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("numbers", has_source=True), JobVertex("digits", parallelism=24, has_sink=True)],
        [JobEdge("numbers", "digits", "numbers", Partitioning.HASH, ("id",))],
        [
            program_of("numbers", None, {}, Files(str(tmp_path / "numbers.parquet"))),
            program_of("digits", by_sql, {}, sink=Files(str(tmp_path / "out"))),
        ],
    )
    found = duckdb.sql(f"SELECT id, digit FROM read_parquet('{tmp_path}/out/*.parquet') ORDER BY id").fetchall()
    assert found == [(number, number % 10) for number in range(1000) if number % 10 < 9]


def test_views_get_the_name_of_their_operation_and_nothing_else_changes(session: Any) -> None:
    frame = by_sql(session.range(3).alias("kept"))
    relation = frame._plan.to_proto(session.client).root
    names = {each.subquery_alias.alias for each in relation.with_relations.references}
    assert names
    renamed = protos().Relation()
    renamed.CopyFrom(relation)
    rename_views(renamed, "x7")
    text = str(renamed)
    assert all(f"{name}x7" in text and f"{name}x7x7" not in text for name in names)
    for name in names:
        text = text.replace(f"{name}x7", name)
    assert "x7" not in renamed.with_relations.references[0].subquery_alias.input.subquery_alias.alias
    assert text.count("kept") == str(relation).count("kept")
