"""Edges that carry partial aggregates: the rows are those of plain Spark, type by type and function by function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as f

from airflow_abs.core.durability.prediction import NO_HISTORY, JobHistory
from airflow_abs.core.expect.expectations import Expect, read_expectations
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.manifest import read_manifest, read_manifests
from airflow_abs.exchange.runs.past_run import past_run
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.errors import would_happen_again
from tests.job_runner import JobRun, program_of, run_job

pytestmark = pytest.mark.spark

Transform = Callable[..., Any]

TYPES = pa.schema(
    {
        "k": pa.int64(),
        "s": pa.string(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "d7": pa.decimal128(7, 2),
        "d11": pa.decimal128(11, 3),
        "d15": pa.decimal128(15, 2),
        "d21": pa.decimal128(21, 9),
        "d28": pa.decimal128(28, 4),
        "d38": pa.decimal128(38, 10),
        "flag": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us", tz="UTC"),
        "local": pa.timestamp("us"),
        "binary": pa.binary(),
    }
)


def row(number: int) -> dict[str, Any]:
    if number % 5 == 0:  # a group of NULLs, and NULLs in all groups
        return {"k": number % 7 if number % 3 else None, "s": None}
    sign = -1 if number % 2 else 1
    digits = (number * 7919 + 13) * sign
    return {
        "k": number % 7,
        "s": ["a", "A", "", "ä", "b "][number % 5 - 1],
        "byte": digits % 100 - 50,
        "short": digits % 30_000 - 15_000,
        "int": digits,
        "long": digits * 10**9,
        "float": math.nan if number % 31 == 0 else digits / 4,
        "double": math.inf if number % 97 == 0 else -0.0 if number % 13 == 0 else digits / 8,
        "d7": Decimal(digits % 10**7) / 100 * sign,
        "d11": Decimal(digits * 999 % 10**9).scaleb(-3),
        "d15": Decimal(digits * 10**7 % 10**15).scaleb(-2),
        "d21": Decimal(digits * 10**12 + 1).scaleb(-9),
        "d28": Decimal(digits * 10**12 + 1).scaleb(-4),
        "d38": Decimal(digits * 10**20 + 1).scaleb(-10),
        "flag": number % 3 == 0,
        "day": date(1900 + number % 200, 1, 1),
        "at": datetime(1900 + number % 200, 1, 1, tzinfo=UTC),
        "local": datetime(1900 + number % 200, 1, 1),  # noqa: DTZ001
        "binary": bytes([number % 256, 0]),
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six files of some hundred rows."""
    folder = tmp_path_factory.mktemp("typed")
    for number in range(6):
        table = pa.Table.from_pylist([row(number * 150 + each) for each in range(150)], schema=TYPES)
        pq.write_table(table, folder / f"part-{number}.parquet")
    return folder


Run = Callable[..., JobRun]


@pytest.fixture
def run(connect_server: ConnectEndpoint, session: Any, source: Path, tmp_path: Path) -> Run:
    """Run `transform` behind a vertex that passes rows on, in several subtasks, and compare it with plain Spark."""

    def start(
        transform: Transform,
        *,
        before: Transform | None = None,
        keys: tuple[str, ...] = ("k",),
        how: Partitioning = Partitioning.HASH,
        conf: dict[str, str] | None = None,
        expect: dict[str, Any] | None = None,
        per_subtask: bool = False,
        edge_columns: str = "used",
        history: JobHistory = NO_HISTORY,
        share_tasks: bool = False,
    ) -> JobRun:
        fixed = None if share_tasks else 2 if how is Partitioning.HASH else 1
        vertices = [
            JobVertex("rows", parallelism=None if share_tasks else 3, has_source=True),
            JobVertex("groups", parallelism=fixed, has_sink=True),
        ]
        options = {"durability": "always", "share_tasks": True} if share_tasks else {}
        edges = [JobEdge("rows", "groups", "rows", how, keys if how is Partitioning.HASH else ())]
        programs = [
            program_of(
                "rows",
                before,
                source=Files(str(source)),
                spark_conf=conf or {},
                expectations=read_expectations("rows", expect or {}),
                edge_columns=edge_columns,
            ),
            program_of(
                "groups", transform, sink=Files(f"{tmp_path}/out"), spark_conf=conf or {}, per_subtask=per_subtask
            ),
        ]
        done = run_job(connect_server, tmp_path / "exchange", vertices, edges, programs, history=history, **options)
        if per_subtask:
            return done
        plain = session.read.parquet(str(source))
        table = transform(before(plain) if before else plain)
        for name, value in (conf or {}).items():
            session.conf.set(name, value)
        try:
            table.write.mode("overwrite").parquet(f"{tmp_path}/plain")
        finally:
            for name in conf or {}:
                session.conf.unset(name)
        assert session.read.parquet(f"{tmp_path}/out").schema == session.read.parquet(f"{tmp_path}/plain").schema
        ours, plains = (f"SELECT * FROM '{tmp_path}/{each}/*.parquet'" for each in ("out", "plain"))
        assert duckdb.sql(f"({ours}) EXCEPT ALL ({plains})").fetchall() == []
        assert duckdb.sql(f"({plains}) EXCEPT ALL ({ours})").fetchall() == []
        assert duckdb.sql(f"SELECT count(*) FROM ({ours})").fetchall() != [(0,)]
        return done

    return start


def written(done: JobRun) -> str:
    """What the edge carries, in words."""
    (given,) = done.plan.region("groups").inputs
    return given.written


NUMBERS = ("byte", "short", "int", "long", "float", "double", "d7", "d11", "d15", "d21", "d28")
AVERAGED = tuple(name for name in NUMBERS if name != "d28")


@pytest.mark.parametrize("ansi", [pytest.param("true", marks=pytest.mark.sample), "false"])
def test_each_function_of_each_type_merges_to_the_value_of_plain_spark(run: Run, ansi: str) -> None:
    def transform(rows: Any) -> Any:
        return rows.groupBy("k").agg(
            f.count("*").alias("n"),
            *(f.count(name).alias(f"count {name}") for name in TYPES.names[1:]),
            *(f.sum(name).alias(f"sum {name}") for name in NUMBERS),
            *(f.avg(name).alias(f"avg {name}") for name in AVERAGED),
            *(f.min(name).alias(f"min {name}") for name in TYPES.names[1:]),
            *(f.max(name).alias(f"max {name}") for name in TYPES.names[1:]),
            f.bool_and("flag").alias("and"),
            f.some("flag").alias("some"),
            f.bit_xor("long").alias("xor"),
            f.bit_and("byte").alias("bits"),
        )

    done = run(transform, conf={"spark.sql.ansi.enabled": ansi})
    assert written(done).startswith("partial count(")
    results = [each for manifest in read_manifests(done.folder, "rows", 3) for each in manifest.results.values()]
    assert sum(each.rows for each in results) == 3 * 8  # the groups of three subtasks


def test_groups_are_expressions_and_aggregates_stand_in_expressions(run: Run) -> None:
    def transform(rows: Any) -> Any:
        kept = rows.where("s IS NOT NULL AND int > -1000000").withColumn("twice", f.col("int") * 2)
        return kept.groupBy("k", f.upper("s").alias("S"), (f.col("int") % 3).alias("third")).agg(
            (f.sum("twice") / f.count("*") + f.coalesce(f.max("d7"), f.lit(0))).alias("mixed"),
            f.sum(f.when(f.col("flag"), f.col("long")).otherwise(0)).cast("string").alias("text"),
        )

    assert written(run(transform)).startswith("partial ")


def test_distinct_values_are_counted_once(run: Run) -> None:
    def transform(rows: Any) -> Any:
        return rows.groupBy("k").agg(
            f.count_distinct("s").alias("d"), f.count_distinct("day", "flag").alias("two"), f.sum("int").alias("sum")
        )

    assert "distinct s" in written(run(transform))


@pytest.mark.sample
def test_distinct_rows(run: Run) -> None:
    assert written(run(lambda rows: rows.select("k", "s", "flag").distinct())) == "partial distinct rows"
    assert written(run(lambda rows: rows.select("s", "k").dropDuplicates(["k", "s"]))) == "partial distinct rows"


@pytest.mark.sample
def test_steps_of_a_shared_task_pass_on_partial_aggregates(run: Run) -> None:
    done = run(lambda rows: rows.groupBy("k").agg(f.sum("d15").alias("sum"), f.count("s").alias("n")), share_tasks=True)
    assert [step.result for step in done.plan.region("groups").steps] == ["rows.whole", "groups.sink"]
    rows = read_manifest(done.folder, "groups", 0).results["rows.whole"]
    assert rows.combined == 900
    assert rows.rows < 900


def test_one_row_of_all(run: Run) -> None:
    def transform(rows: Any) -> Any:
        return rows.groupBy().agg(f.count("*").alias("n"), f.sum("d15").alias("sum"), f.avg("long").alias("mean"))

    assert written(run(transform, how=Partitioning.RESCALE)).startswith("partial count(")


def test_of_no_rows_there_is_one_row_without_groups(run: Run) -> None:
    def transform(rows: Any) -> Any:
        none = rows.where("int = -1")
        return none.groupBy().agg(f.count("*").alias("n"), f.max("s").alias("s"), f.avg("d15").alias("mean"))

    assert written(run(transform, how=Partitioning.RESCALE)).startswith("partial count(")


@pytest.mark.parametrize(
    "transform",
    [
        lambda rows: rows.groupBy("k").agg(f.collect_set("s").alias("x")),
        lambda rows: rows.groupBy("k").agg(f.sum("d38").alias("x")),
        lambda rows: rows.groupBy("k").agg(f.avg("d28").alias("x")),
        lambda rows: rows.groupBy("k").agg(f.sum_distinct("int").alias("x")),
        lambda rows: rows.groupBy("k").agg(f.expr("sum(int)").alias("x")),
        lambda rows: rows.groupBy("k").agg(f.count_distinct("*").alias("x")),
        lambda rows: rows.groupBy("k").agg((f.sum("int") + f.col("k")).alias("x")),
        lambda rows: rows.withColumn("r", f.rand(3)).groupBy("k").agg(f.count("r").alias("x")),
        lambda rows: rows.rollup("k").agg(f.sum("int").alias("x")),
        lambda rows: rows.groupBy(f.collate("s", "UTF8_LCASE").alias("c"), "k").agg(f.sum("int").alias("x")).drop("c"),
        lambda rows: rows.select("k", "s", "int").dropDuplicates(["k", "s"]).groupBy("k").agg(f.count("s").alias("x")),
        lambda rows: rows.join(rows.groupBy("k").agg(f.max("int").alias("int")), ["k", "int"]).select("k", "int"),
    ],
    ids=range(12),
)
def test_what_does_not_merge_exactly_is_written_as_rows(run: Run, transform: Transform) -> None:
    how = Partitioning.HASH
    if transform.__code__.co_names[:1] == ("rollup",):
        how = Partitioning.RESCALE
    assert "partial" not in written(run(transform, how=how))


def test_more_than_one_row_is_looked_at_before(run: Run) -> None:
    window = "row_number() OVER (PARTITION BY k ORDER BY int, long, s, day) AS place"

    def transform(rows: Any) -> Any:
        return rows.selectExpr("k", "int", window).groupBy("k").agg(f.sum("place").alias("x"))

    assert "partial" not in written(run(transform))


def test_what_did_not_pay_on_an_earlier_day_is_written_as_rows(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def transform(rows: Any) -> Any:
        return rows.groupBy("k").agg(f.sum("int").alias("x"))

    done = run(transform)
    assert past_run(read_run(done.folder), "2026-01-01", 0.0, would_happen_again).partial_shares == {}
    monkeypatch.setattr("airflow_abs.exchange.runs.past_run.LEAST_COMBINED", 1)
    past = past_run(read_run(done.folder), "2026-01-01", 0.0, would_happen_again)
    assert past.partial_shares == {"rows": round(24 / 900, 4)}  # eight groups of each of three subtasks
    for share, pays in ((0.5, True), (0.51, False)):
        days = JobHistory((replace(past, partial_shares={"rows": 0.9}), replace(past, partial_shares={"rows": share})))
        assert ("partial" in written(run(transform, history=days))) is pays


def test_a_python_function_stays_in_the_vertex_that_calls_it(run: Run) -> None:
    def transform(rows: Any) -> Any:
        doubled = f.udf(lambda number: number and 2 * number, "int")
        return rows.select("k", doubled("int").alias("int")).groupBy("k").agg(f.sum("int").alias("x"))

    assert "partial" not in written(run(transform))


def test_a_total_in_a_select_is_no_projection(run: Run) -> None:
    def transform(rows: Any) -> Any:
        return rows.select(f.sum("int").alias("sum")).groupBy().agg(f.max("sum").alias("x"))

    assert "partial" not in written(run(transform, how=Partitioning.RESCALE))


def test_expectations_are_about_rows(run: Run) -> None:
    def transform(rows: Any) -> Any:
        return rows.groupBy("k").agg(f.sum("int").alias("x"))

    assert "partial" not in written(run(transform, expect={"known": Expect("int IS NOT NULL OR s IS NULL")}))


def test_a_column_of_the_aggregate_itself_is_found_after_it(run: Run) -> None:
    def transform(rows: Any) -> Any:
        sums = rows.groupBy("k").agg(f.sum("int").alias("x"))
        return sums.where(sums["x"] > 0).select(sums["x"], sums["k"])

    assert written(run(transform)).startswith("partial ")


def test_a_key_that_was_renamed_is_found(run: Run) -> None:
    def renamed(rows: Any) -> Any:
        return rows.withColumnRenamed("k", "kk").groupBy("kk").agg(f.sum("int").alias("x"))

    assert written(run(renamed)).startswith("partial ")


def test_a_key_of_the_edge_that_is_no_group_leaves_rows(run: Run) -> None:
    """Each subtask has its own totals, so that no query of plain Spark gives these rows."""

    def transform(rows: Any) -> Any:
        return rows.groupBy("s").agg(f.sum("int").alias("x"))

    assert "partial" not in written(run(transform, per_subtask=True))


def test_a_vertex_keeps_all_columns_and_rows_if_its_author_says_so(run: Run) -> None:
    def transform(rows: Any) -> Any:
        return rows.groupBy("k").agg(f.sum("int").alias("x"))

    done = run(transform, edge_columns="all")
    (step,) = done.plan.region("rows").steps
    assert (written(done), step.columns) == ("", TYPES.names)
