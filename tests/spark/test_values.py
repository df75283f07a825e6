"""Random values, row numbers and the time, in a plan that runs in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from airflow_abs.spark.values import fix_values, is_repeatable, mix_in_subtask

pytestmark = pytest.mark.spark

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
Make = Callable[[Any, Any], Any]


def random_columns(rows: Any, f: Any) -> Any:
    seeded = [f.rand(), f.randn(7), f.uuid(), f.randstr(f.lit(8)), f.uniform(f.lit(0), f.lit(10**9)), f.rand(3)]
    return rows.select("id", *seeded)


def random_sql(rows: Any, f: Any) -> Any:
    return rows.selectExpr("id", "rand()", "uuid()", "rand(7) AS seven", "shuffle(array(1,2,3,4,5,6,7,8,9)) AS s")


def random_query(rows: Any, f: Any) -> Any:
    return rows.sparkSession.sql("SELECT id, uuid() AS u, concat('uuid()', randstr(4)) AS r FROM {rows}", rows=rows)


def row_numbers(rows: Any, f: Any) -> Any:
    return rows.select(f.monotonically_increasing_id().alias("n"), f.expr("monotonically_increasing_id() AS m"))


def times(rows: Any, f: Any) -> Any:
    calls = [f.current_timestamp(), f.now(), f.current_date(), f.localtimestamp(), f.unix_timestamp()]
    return rows.select(*calls).union(
        rows.selectExpr("current_timestamp()", "now()", "curdate()", "localtimestamp()", "unix_timestamp()")
    )


def collect(session: Any, relation: Any) -> list[tuple[Any, ...]]:
    from airflow_abs.spark.connect.protocol import protos

    table, _ = session.client.to_table(protos().Plan(root=relation), [])[:2]
    return [tuple(row.values()) for row in table.to_pylist()]


def build(session: Any, make: Make) -> tuple[Any, list[str]]:
    from pyspark.sql.connect import functions

    frame = make(session.range(0, 50, 1, 1), functions)
    numbers: Iterator[int] = count(1_000_003)
    relation = frame._plan.to_proto(session.client).root
    return fix_values(relation, frame.columns, NOW, lambda: next(numbers)), frame.columns


@pytest.mark.sample
@pytest.mark.parametrize("make", [random_columns, random_sql, random_query])
def test_every_subtask_has_random_values_of_its_own_and_the_same_ones_again(session: Any, make: Make) -> None:
    fixed, columns = build(session, make)
    runs = [collect(session, mix_in_subtask(fixed, columns, index)) for index in (0, 1, 2, 1)]
    assert runs[0] == collect(session, fixed)
    assert runs[1] == runs[3]
    for first, second in ((0, 1), (1, 2), (0, 2)):
        for column in range(1, len(columns)):
            values = [[row[column] for row in runs[run]] for run in (first, second)]
            assert values[0] != values[1], columns[column]


def test_values_of_pieces_differ_too(session: Any) -> None:
    fixed, columns = build(session, random_columns)
    one, other = (collect(session, mix_in_subtask(fixed, columns, 1, piece)) for piece in (0, 1))
    assert not {row[3] for row in one} & {row[3] for row in other}


def test_the_columns_keep_the_names_that_the_transform_gave_or_did_not_give_them(session: Any) -> None:
    from airflow_abs.spark.connect.protocol import protos

    for make in (random_columns, random_sql, times):
        fixed, columns = build(session, make)
        mixed = mix_in_subtask(fixed, columns, 5)
        schema = session.client.schema(protos().Plan(root=mixed))
        assert schema.names == columns


@pytest.mark.sample
def test_row_numbers_are_unique_over_subtasks_and_pieces(session: Any) -> None:
    fixed, columns = build(session, row_numbers)
    seen: set[int] = set()
    for index, piece in ((0, 0), (0, 1), (1, 0), (1023, 63)):
        rows = collect(session, mix_in_subtask(fixed, columns, index, piece))
        assert all(row[0] == row[1] >= 0 for row in rows)
        assert not seen & {row[0] for row in rows}
        seen |= {row[0] for row in rows}
    with pytest.raises(ValueError, match=r"room for 1024 subtasks of 64 pieces, and this is subtask 1024, piece 0"):
        mix_in_subtask(fixed, columns, 1024)


@pytest.mark.sample
def test_the_time_is_one_value_for_the_whole_run(session: Any) -> None:
    fixed, columns = build(session, times)
    rows = set(collect(session, fixed)) | set(collect(session, mix_in_subtask(fixed, columns, 3)))
    ((stamp, now, day, local, seconds),) = rows
    assert stamp == now == NOW
    assert (day.isoformat(), seconds) == (local.date().isoformat(), int(NOW.timestamp()))


def test_a_column_of_that_name_stays_a_column(session: Any) -> None:
    def own(rows: Any, f: Any) -> Any:
        return rows.selectExpr("id AS current_date").where("current_date >= 0").selectExpr("current_date")

    fixed, _ = build(session, own)
    assert {row[0] for row in collect(session, fixed)} == set(range(50))


def test_a_column_of_that_name_stays_a_column_where_it_is_not_part_of_the_output(session: Any) -> None:
    def hidden(rows: Any, f: Any) -> Any:
        return rows.withColumnRenamed("id", "current_date").where("current_date >= 40").selectExpr("1 AS one")

    fixed, _ = build(session, hidden)
    assert len(collect(session, fixed)) == 10


def test_a_plan_without_such_values_stays_as_it_is(session: Any) -> None:
    fixed, columns = build(session, lambda rows, f: rows.selectExpr("id", "'uuid()' AS text"))
    assert mix_in_subtask(fixed, columns, 4) is fixed


def test_random_values_behind_a_shuffle_cannot_be_had_again(session: Any) -> None:
    plain, _ = build(session, random_query)
    assert not is_repeatable(plain)  # SQL text may hold a join
    rows, _ = build(session, lambda rows, f: rows.withColumn("u", f.uuid()))
    assert is_repeatable(rows)
    joined, _ = build(session, lambda rows, f: rows.join(rows.select("id"), "id").withColumn("u", f.uuid()))
    assert not is_repeatable(joined)
