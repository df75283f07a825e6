"""Edges that carry partial aggregates of rows that are joined before they are aggregated."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as f

from airflow_abs.core.durability.prediction import NO_HISTORY, JobHistory, RunHistory
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.manifest import read_manifests
from airflow_abs.exchange.runs.past_run import past_run
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.errors import would_happen_again
from tests.job_runner import JobRun, plan_run, program_of, run_job
from tests.spark.narrowing.test_partial_aggregates import AVERAGED, NUMBERS, TYPES, row

pytestmark = pytest.mark.spark

Transform = Callable[..., Any]
KNOWN = JobHistory((RunHistory(0.0, (), partial_shares={"rows": 0.1}),))
"""A run that found ten rows in each group."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of all types in six files, and others of the same keys: some twice, some missing, some NULL."""
    folder = tmp_path_factory.mktemp("joined")
    (folder / "rows").mkdir()
    for number in range(6):
        table = pa.Table.from_pylist([row(number * 150 + each) for each in range(150)], schema=TYPES)
        pq.write_table(table, folder / "rows" / f"part-{number}.parquet")
    keys = [None, 1, 2, 3, None, None, 6, 7, None, 0, 1, 2, None, 4]
    others = [
        {"key": key, "name": "ab"[place % 2], "weight": place * 10, "rate": Decimal(place) / 4}
        for place, key in enumerate(keys)
    ]
    schema = {"key": pa.int64(), "name": pa.string(), "weight": pa.int64(), "rate": pa.decimal128(7, 2)}
    (folder / "others").mkdir()
    pq.write_table(pa.Table.from_pylist(others, schema=pa.schema(schema)), folder / "others" / "part-0.parquet")
    return folder


Run = Callable[..., JobRun]


@pytest.fixture
def run(connect_server: ConnectEndpoint, session: Any, sources: Path, tmp_path: Path) -> Run:
    """Run `transform` on `rows` and `others` in several subtasks, and compare it with plain Spark."""
    numbers = itertools.count()

    def start(
        transform: Transform,
        *,
        before: Transform | None = None,
        keys: Sequence[str] = ("k",),
        other_keys: Sequence[str] = ("key",),
        how: Partitioning = Partitioning.HASH,
        conf: dict[str, str] | None = None,
        history: JobHistory = KNOWN,
        parallelism: int = 1,
        only_plan: bool = False,
        **options: Any,
    ) -> JobRun:
        place = tmp_path / str(next(numbers))
        is_hash = how is Partitioning.HASH
        vertices = [
            JobVertex("rows", parallelism=3, has_source=True),
            JobVertex("others", parallelism=1, has_source=True),
            JobVertex("joined", parallelism=parallelism, has_sink=True),
        ]
        edges = [
            JobEdge("rows", "joined", "rows", how, tuple(keys) if is_hash else ()),
            JobEdge(
                "others", "joined", "others", *((how, tuple(other_keys)) if is_hash else (Partitioning.BROADCAST, ()))
            ),
        ]
        programs = [
            program_of("rows", before, source=Files(f"{sources}/rows"), spark_conf=conf or {}, **options),
            program_of("others", source=Files(f"{sources}/others"), spark_conf=conf or {}),
            program_of("joined", transform, sink=Files(f"{place}/out"), spark_conf=conf or {}),
        ]
        perform = plan_run if only_plan else run_job
        done = perform(connect_server, place / "exchange", vertices, edges, programs, history=history)
        if only_plan:
            return done
        rows, others = (session.read.parquet(f"{sources}/{name}") for name in ("rows", "others"))
        table = transform(rows=before(rows) if before else rows, others=others)
        for name, value in (conf or {}).items():
            session.conf.set(name, value)
        try:
            table.write.mode("overwrite").parquet(f"{place}/plain")
        finally:
            for name in conf or {}:
                session.conf.unset(name)
        assert session.read.parquet(f"{place}/out").schema == session.read.parquet(f"{place}/plain").schema
        ours, plain = (f"SELECT * FROM '{place}/{each}/*.parquet'" for each in ("out", "plain"))
        assert duckdb.sql(f"({ours}) EXCEPT ALL ({plain})").fetchall() == []
        assert duckdb.sql(f"({plain}) EXCEPT ALL ({ours})").fetchall() == []
        assert duckdb.sql(f"SELECT count(*) FROM ({ours})").fetchall() != [(0,)]
        return done

    return start


def written(done: JobRun) -> str:
    """What the edge from `rows` carries, in words."""
    return next(each.written for each in done.plan.region("joined").inputs if each.name == "joined.rows")


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_each_function_of_each_type_merges_to_the_value_of_plain_spark(run: Run, ansi: str) -> None:
    def transform(rows: Any, others: Any) -> Any:
        return (
            rows.join(others, rows["k"] == others["key"])
            .groupBy("k", "name")
            .agg(
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
        )

    done = run(transform, conf={"spark.sql.ansi.enabled": ansi}, parallelism=2)
    assert written(done).startswith("partial count(*), count(s), count(byte), count(short) and ")
    assert written(done).endswith(" more by k")
    results = [each for manifest in read_manifests(done.folder, "rows", 3) for each in manifest.results.values()]
    assert sum(each.rows for each in results) <= 3 * 8  # the keys of three subtasks


@pytest.mark.parametrize(
    ("join", "columns"),
    [
        ("inner", ["k", "name", "weight"]),
        ("left", ["k", "name", "weight"]),
        ("semi", ["k"]),
        ("anti", ["k"]),
    ],
)
def test_a_join_that_keeps_drops_or_repeats_rows(run: Run, join: str, columns: list[str]) -> None:
    def transform(rows: Any, others: Any) -> Any:
        joined = rows.join(others, rows["k"] == others["key"], join)
        sums = [f.sum("d15").alias("sum"), f.count("*").alias("n"), f.avg("int").alias("mean"), f.max("s").alias("s")]
        return joined.groupBy(*columns).agg(*sums)

    assert written(run(transform, parallelism=2)) == "partial sum(d15), count(*), avg(int), max(s) by k"


def test_the_right_side_of_joins(run: Run) -> None:
    def transform(rows: Any, others: Any) -> Any:
        named = others.join(rows, rows["k"] == others["key"], "right").where("name IS NULL OR name = 'a'")
        return named.groupBy("name").agg(f.sum("int").alias("sum"))

    assert written(run(transform)) == "partial sum(int) by k"


def test_a_join_without_keys(run: Run) -> None:
    def transform(rows: Any, others: Any) -> Any:
        joined = rows.crossJoin(others).where("k + key > 8")
        return joined.groupBy("name").agg(f.sum("int").alias("sum"), f.count("*").alias("n"))

    assert written(run(transform, how=Partitioning.RESCALE)) == "partial sum(int), count(*) by k"


def test_columns_are_selected_and_renamed_between_join_and_aggregate(run: Run) -> None:
    def transform(rows: Any, others: Any) -> Any:
        joined = rows.join(others, rows["k"] == others["key"]).select("k", "name", f.col("d7").alias("price"))
        total = joined.withColumnRenamed("price", "Amount").groupBy("name").agg({"Amount": "sum"})
        return total.selectExpr("name", "CAST(`sum(Amount)` AS DECIMAL(28, 4)) AS total")

    assert written(run(transform)) == "partial sum(d7) by k"


def test_columns_of_one_name_on_both_sides(run: Run) -> None:
    def transform(rows: Any, others: Any) -> Any:
        renamed = others.withColumnRenamed("weight", "int").withColumnRenamed("key", "k")
        joined = rows.join(renamed, rows["k"] == renamed["k"])
        return joined.groupBy(rows["k"]).agg(f.sum(rows["int"]).alias("sum"), f.max(renamed["int"]).alias("max"))

    assert written(run(transform)) == "partial sum(int) by k"


def test_a_join_by_name(run: Run) -> None:
    def transform(rows: Any, others: Any) -> Any:
        joined = rows.join(others.withColumnRenamed("key", "k"), "k", "left")
        return joined.groupBy("k", "name").agg(f.sum("int").alias("sum"))

    assert written(run(transform)) == "partial sum(int) by k"


def test_several_joins_and_a_filter_on_a_grouped_column(run: Run) -> None:
    def transform(rows: Any, others: Any) -> Any:
        first = rows.where("s <> 'A'").join(others, rows["k"] == others["key"])
        names = first.sparkSession.createDataFrame([("a", 1), ("b", 2), ("b", 3)], "label string, factor int")
        second = first.join(names, first["name"] == names["label"])
        return second.groupBy("factor", f.upper("s").alias("S")).agg(f.sum("int").alias("sum"), f.count("*").alias("n"))

    assert written(run(transform)) == "partial sum(int), count(*) by k, s"


def test_aggregates_of_the_other_side_that_repetitions_do_not_change(run: Run) -> None:
    def transform(rows: Any, others: Any) -> Any:
        joined = rows.join(others, rows["k"] == others["key"], "left")
        return joined.groupBy("name").agg(
            f.max("weight").alias("max"),
            f.count_distinct("key", "weight").alias("distinct"),
            f.count("weight").alias("known"),
            f.count("k").alias("k"),
            f.sum("int").alias("sum"),
        )

    assert written(run(transform)) == "partial sum(int) by k"


@pytest.mark.parametrize("join", ["inner", "left"])
def test_rows_alone_are_counted(run: Run, join: str) -> None:
    def transform(rows: Any, others: Any) -> Any:
        return rows.join(others, rows["k"] == others["key"], join).groupBy("name").count()

    assert written(run(transform)) == "partial count(1) by k"


def test_distinct_rows_of_a_join(run: Run) -> None:
    def transform(rows: Any, others: Any) -> Any:
        return rows.join(others, rows["k"] == others["key"], "left").select("s", "name").distinct()

    assert written(run(transform)) == "partial distinct rows by k, s"


def test_one_row_of_all(run: Run) -> None:
    def transform(rows: Any, others: Any) -> Any:
        joined = rows.join(f.broadcast(others), rows["k"] == others["key"])
        return joined.groupBy().agg(f.sum("d28").alias("sum"), f.count("*").alias("n"), f.min("at").alias("first"))

    assert written(run(transform, how=Partitioning.RESCALE)) == "partial sum(d28), count(*), min(at) by k"


def test_a_sum_that_overflows_is_an_error_only_of_rows_that_pass_the_join(run: Run) -> None:
    def large(rows: Any) -> Any:
        return rows.withColumn("long", f.when(f.col("k") == 3, f.lit(2**62)).otherwise(f.col("long")))

    def transform(rows: Any, others: Any) -> Any:
        kept = others.where("key <> 3 OR key IS NULL")
        return rows.join(kept, rows["k"] == kept["key"]).groupBy("name").agg(f.sum("long").alias("sum"))

    for ansi in ("true", "false"):
        assert written(run(transform, before=large, conf={"spark.sql.ansi.enabled": ansi})) == "partial sum(long) by k"


def test_a_sum_that_overflows_wraps_as_in_plain_spark(run: Run) -> None:
    def large(rows: Any) -> Any:
        return rows.withColumn("long", f.col("int") + 2**62)

    def transform(rows: Any, others: Any) -> Any:
        return rows.join(others, rows["k"] == others["key"]).groupBy("name").agg(f.sum("long").alias("sum"))

    assert written(run(transform, before=large, conf={"spark.sql.ansi.enabled": "false"})) == "partial sum(long) by k"


DRAWN = int(os.environ.get("AIRFLOW_ABS_DRAWN_JOINS", "15"))


def _draw(seed: int) -> tuple[Transform, int]:
    """A step that joins, perhaps filters and selects, and aggregates; and how many subtasks it gets."""
    draw = random.Random(seed)  # noqa: S311
    how = draw.choice(["inner", "inner", "left", "left", "semi", "anti", "right"])
    of_both = how not in ("semi", "anti")
    groups = draw.sample(["k", "s", "day", "flag", *(["name", "weight"] if of_both else [])], draw.randint(0, 3))
    called = draw.sample([name for name in NUMBERS if name not in ("d38", *groups)], 2)
    calls = [
        draw.choice([f.sum, f.count, f.min, f.max])(name).alias(f"{name}_{place}") for place, name in enumerate(called)
    ]
    calls += draw.sample(
        [f.count("*").alias("n"), f.avg(draw.choice(AVERAGED)).alias("mean"), f.bool_or("flag").alias("any")], 2
    )
    calls += (
        [f.max("rate").alias("rate"), f.count("weight").alias("weights")] if of_both and draw.random() < 0.5 else []
    )
    condition = draw.choice(["k > 1", "s <> 'A' OR k IS NULL", "name = 'a' AND weight > 20", "key < k + 2", ""])
    chained, is_filtered = draw.random() < 0.4, draw.random() < 0.5

    def transform(rows: Any, others: Any) -> Any:
        left = rows.where("k <> 4 OR k IS NULL") if is_filtered else rows
        on = left["k"] == others["key"]
        joined = others.join(left, on, how) if how == "right" else left.join(others, on, how)
        if condition and (of_both or ("name" not in condition and "key" not in condition)):
            joined = joined.where(condition)
        if chained:
            labels = joined.sparkSession.createDataFrame([(1, "x"), (1, "y"), (2, "z")], "label long, text string")
            joined = joined.join(labels, joined["k"] == labels["label"], "left")
        return joined.groupBy(*groups).agg(*calls)

    return transform, draw.choice([1, 2, 3]) if "k" in groups else 1


@pytest.mark.parametrize("seed", range(DRAWN))
def test_a_drawn_step_gives_the_rows_of_plain_spark(run: Run, seed: int) -> None:
    transform, parallelism = _draw(seed)
    assert written(run(transform, parallelism=parallelism)).startswith("partial ")


def _joined(rows: Any, others: Any, how: str = "inner") -> Any:
    return rows.join(others, rows["k"] == others["key"], how)


@pytest.mark.parametrize(
    ("transform", "why"),
    [
        (lambda rows, others: _joined(rows, others).groupBy("k").agg(f.sum("weight").alias("x")), "sum(weight) is not"),
        (lambda rows, others: _joined(rows, others).groupBy("k").agg(f.avg("rate").alias("x")), "avg(rate) is not"),
        (lambda rows, others: _joined(rows, others).groupBy("k").agg(f.sum("k").alias("x")), "sum(k) is not"),
        (
            lambda rows, others: _joined(rows, others).where("int > 0").groupBy("k").agg(f.sum("int").alias("x")),
            "sum(int) is not",
        ),
        (
            lambda rows, others: _joined(rows, others).groupBy("k").agg(f.sum(f.col("int") * 2).alias("x")),
            "sum(*(int, 2)) is not",
        ),
        (
            lambda rows, others: (
                _joined(rows, others).groupBy("k").agg(f.sum(f.col("int") * f.col("weight")).alias("x"))
            ),
            "sum(*(int, weight)) is not",
        ),
        (
            lambda rows, others: _joined(rows, others).groupBy("k").agg(f.sum("d38").alias("x")),
            "does not merge exactly",
        ),
        (
            lambda rows, others: _joined(rows, others).groupBy("k").agg(f.collect_set("s").alias("x")),
            "collect_set() is not one of the functions",
        ),
        (
            lambda rows, others: _joined(rows, others).fillna(0).groupBy("name").agg(f.sum("int").alias("x")),
            "sum(int) is not",
        ),
        (
            lambda rows, others: _joined(rows, others).groupBy("double", "k").agg(f.sum("int").alias("x")),
            "look at values of double",
        ),
        (
            lambda rows, others: _joined(rows, others).select("name", "key").groupBy("name").count(),
            "__airflow_abs_rows",
        ),
        (
            lambda rows, others: (
                _joined(rows, others)
                .selectExpr(
                    "name", "k", "int", "row_number() OVER (PARTITION BY k ORDER BY int, long, s, day) AS place"
                )
                .groupBy("name")
                .agg(f.max("place").alias("x"), f.sum("int").alias("sum"))
            ),
            "Window comes before",
        ),
        (
            lambda rows, others: (
                _joined(rows.withColumn("r", f.rand(3)), others).groupBy("k").agg(f.count("r").alias("x"))
            ),
            "rand() is not a function of its rows",
        ),
        (
            lambda rows, others: (
                _joined(rows, others)
                .withColumn("u", f.udf(lambda name: name, "string")("s"))
                .groupBy("u", "k")
                .agg(f.sum("int").alias("x"))
            ),
            "EvalPython comes before",
        ),
        (
            lambda rows, others: (
                _joined(rows, others).withColumn("twice", f.col("int") * 2).groupBy("k").agg(f.sum("int").alias("x"))
            ),
            "DATATYPE_MISMATCH",
        ),
    ],
    ids=range(15),
)
def test_rows_are_written_with_the_reason(
    run: Run, transform: Transform, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert "partial" not in written(run(transform, only_plan=True))
    assert any("rows -> joined" in each and why in each for each in caplog.messages), caplog.messages


@pytest.mark.parametrize(
    "transform",
    [
        lambda rows, others: _joined(rows, others, "right").groupBy("name").agg(f.sum("int").alias("x")),
        lambda rows, others: _joined(rows, others, "full").groupBy("name").agg(f.sum("int").alias("x")),
        lambda rows, others: (
            _joined(rows, others.join(rows.selectExpr("k AS other").distinct(), f.col("key") == f.col("other"), "semi"))
            .groupBy("name")
            .agg(f.sum("int").alias("x"))
        ),
    ],
    ids=["right", "full", "twice"],
)
def test_a_join_that_makes_up_rows_gets_rows(run: Run, transform: Transform) -> None:
    assert "partial" not in written(run(transform, only_plan=True))


def test_an_author_keeps_rows(run: Run) -> None:
    def transform(rows: Any, others: Any) -> Any:
        return _joined(rows, others).groupBy("name").agg(f.sum("int").alias("x"))

    assert written(run(transform, edge_columns="all", only_plan=True)) == ""


@pytest.mark.sample
def test_a_run_measures_whether_the_next_one_writes_partial_sums(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_abs.exchange.runs.past_run.LEAST_COMBINED", 16)
    monkeypatch.setattr("airflow_abs.spark.narrowing.partial_aggregates._MOST_WRITTEN_BEFORE_JOINS", 0.5)

    def spread(rows: Any) -> Any:
        return rows.withColumn("k", f.abs(f.hash("int", "s") % 97).cast("long"))

    def transform(rows: Any, others: Any) -> Any:
        joined = rows.join(others, rows["k"] == others["key"], "left").select("k", "name", "d15")
        return joined.groupBy("k", "name").agg(f.sum("d15").alias("sum"))

    def remembered(done: JobRun) -> JobHistory:
        return JobHistory((past_run(read_run(done.folder), "2026-01-01", 0.0, would_happen_again),))

    first = run(transform, before=spread, history=NO_HISTORY, parallelism=2)
    assert "partial" not in written(first)
    counted = [
        each.sampled for manifest in read_manifests(first.folder, "rows", 3) for each in manifest.results.values()
    ]
    share = remembered(first).partial_shares()["rows"]
    assert share == round(sum(groups for _, groups in counted) / sum(rows for rows, _ in counted), 4)
    second = run(transform, before=spread, history=remembered(first), parallelism=2)
    assert written(second) == "partial sum(d15) by k"
    exact = remembered(second).partial_shares()["rows"]
    assert exact == pytest.approx(share, abs=0.2)
    third = run(transform, before=spread, history=JobHistory((RunHistory(0.0, (), partial_shares={"rows": 0.51}),)))
    assert "partial" not in written(third)
    assert remembered(third).partial_shares()["rows"] == share
