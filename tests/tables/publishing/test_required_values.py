"""NULL is found wherever a table allows none, and nowhere else."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_abs.exchange.publish.record import StagedFile
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.publishing.required_values import check_required, leaf_paths, required_inside


def file_of(**columns: pa.Array) -> pq.ParquetFile:
    """Whose schema allows NULL everywhere, as Spark writes it; three rows in two groups."""
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, row_group_size=2)
    stream.seek(0)
    return pq.ParquetFile(stream)


def check(file: pq.ParquetFile, *required: str, inside: tuple[tuple[str, ...], ...] = ()) -> None:
    target = TargetTable("d.t", "", "append", "", "", required=required, required_inside=inside)
    check_required(target, StagedFile(Path("/x"), "part-1.parquet", 1, 3), file)


NUMBERS = pa.list_(pa.int64())
PRICES = pa.map_(pa.string(), pa.int64())
POINT = pa.struct([("x", pa.int64()), ("y", pa.int64())])
POINTS = pa.list_(POINT)


@pytest.mark.parametrize(
    ("kind", "path", "right", "wrong"),
    [
        (NUMBERS, ("element",), [[1], [], None], [[1], [], [2, None]]),
        (pa.list_(NUMBERS), ("element",), [[[None], []], [], None], [[[1]], None, [None]]),
        (pa.list_(NUMBERS), ("element", "element"), [[[1], [], None], [], None], [[[1]], None, [None, [None]]]),
        (PRICES, ("value",), [[("a", 1)], [], None], [[("a", 1)], None, [("b", None)]]),
        (POINT, ("x",), [{"x": 1, "y": None}, None, None], [None, None, {"x": None, "y": 1}]),
        (POINTS, ("element", "x"), [[{"x": 1, "y": None}, None], [], None], [[], None, [{"x": None, "y": None}]]),
        (POINTS, ("element",), [[{"x": None, "y": None}], [], None], [[], None, [None]]),
    ],
)
def test_null_inside_of_a_column_is_refused_and_lists_without_elements_are_not(
    kind: pa.DataType, path: tuple[str, ...], right: list[Any], wrong: list[Any]
) -> None:
    inside = (("c", *path),)
    check(file_of(c=pa.array(right, kind)), inside=inside)
    named = r"\.".join(("c", *path))
    with pytest.raises(TableError, match=rf"table d\.t: column '{named}' is required, and part-1.parquet has rows in"):
        check(file_of(c=pa.array(wrong, kind)), inside=inside)


@pytest.mark.parametrize("kind", [POINT, NUMBERS, PRICES])
def test_structs_lists_and_maps_are_required_as_other_columns_are(kind: pa.DataType) -> None:
    value = {POINT: {"x": None, "y": None}, NUMBERS: [], PRICES: []}[kind]
    check(file_of(c=pa.array([value] * 3, kind)), "c")
    with pytest.raises(TableError, match="column 'c' is required"):
        check(file_of(c=pa.array([value, value, None], kind)), "c")


def test_a_column_with_a_dot_in_its_name_is_not_taken_for_a_field() -> None:
    file = file_of(**{"a": pa.array([{"b": None}] * 3, pa.struct([("b", pa.int64())])), "a.b": pa.array([1, 2, 3])})
    assert list(leaf_paths(file.schema_arrow)) == [("a", "b"), ("a.b",)]
    check(file, "a", "a.b")
    with pytest.raises(TableError, match=r"column 'a.b' is required"):
        check(file, inside=(("a", "b"),))


def test_what_is_required_is_what_a_schema_calls_so_but_keys() -> None:
    strict = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.int64())])
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("points", pa.list_(pa.field("item", strict, nullable=False))),
            pa.field("prices", pa.map_(pa.string(), pa.field("value", strict, nullable=False))),
        ]
    )
    assert list(required_inside(schema)) == [
        ("points", "element"),
        ("points", "element", "x"),
        ("prices", "value"),
        ("prices", "value", "x"),
    ]
