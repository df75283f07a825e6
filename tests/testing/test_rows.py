"""Multisets of rows, and what is said of their difference."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_abs.testing.rows import describe_difference

NAN = float("nan")


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows))


def test_order_signed_zeros_nan_and_last_digits_make_no_difference() -> None:
    one = table({"k": "a", "v": 0.1 + 0.2, "l": [0.0]}, {"k": "b", "v": NAN, "l": None}, {"k": "b", "v": 1.0, "l": []})
    other = table({"k": "b", "v": 1.0, "l": []}, {"k": "b", "v": NAN, "l": None}, {"k": "a", "v": 0.3, "l": [-0.0]})
    assert describe_difference(one, other) is None


def test_entries_of_maps_have_no_order() -> None:
    kind = pa.schema({"m": pa.map_(pa.string(), pa.int32())})
    one = pa.Table.from_pylist([{"m": [("x", 1), ("y", 2)]}], kind)
    assert describe_difference(one, pa.Table.from_pylist([{"m": [("y", 2), ("x", 1)]}], kind)) is None
    assert describe_difference(one, pa.Table.from_pylist([{"m": [("y", 2), ("x", 3)]}], kind)) is not None


@pytest.mark.parametrize(
    ("found", "expected", "said"),
    [
        ([1, 1], [1], "2 rows, expected 1; 1 too many ((1,)), 0 missing"),
        ([1, 2], [2, 3], "2 rows, expected 2; 1 too many ((1,)), 1 missing ((3,))"),
        ([1.0], [1.000001], "1 rows, expected 1; 1 too many ((1.0,)), 1 missing ((1.000001,))"),
        ([None], [0], "1 rows, expected 1; 1 too many ((None,)), 1 missing ((0,))"),
    ],
)
def test_rows_too_many_and_missing_are_counted_and_shown(found: list[float], expected: list[float], said: str) -> None:
    assert describe_difference(pa.table({"v": found}), pa.table({"v": expected})) == said


def test_other_columns_are_a_difference() -> None:
    assert describe_difference(pa.table({"a": [1]}), pa.table({"b": [1]})) == "columns ['a'], expected ['b']"
