"""Tables as what they are: multisets of rows. Nothing else is promised of the order of rows in files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

RELATIVE_TOLERANCE = 1e-9
"""Of floating-point numbers. Sums in another order differ by about n * 2^-53 of the sum of the magnitudes: 1e-13 for a
thousand rows, which leaves four digits for differences that cancel (variance, correlation), and is far below what a row
too few or too many does to a sum."""

_SHOWN = 3


def describe_difference(found: pa.Table, expected: pa.Table, *, tolerance: float = RELATIVE_TOLERANCE) -> str | None:
    """How two multisets of rows differ, in one line; None if they are equal.

    NaN equals NaN, 0.0 equals -0.0, entries of a map have no order; columns are compared by name and in order.
    """
    if found.column_names != expected.column_names:
        return f"columns {found.column_names}, expected {expected.column_names}"
    left, right = _rows(found), _rows(expected)
    alone, missing = Counter(map(repr, left)), Counter(map(repr, right))
    surplus = _unmatched(left, alone - missing), _unmatched(right, missing - alone)
    unequal = _match_nearly(*surplus, tolerance)
    if not unequal[0] and not unequal[1]:
        return None
    return (
        f"{len(left)} rows, expected {len(right)}; {len(unequal[0])} too many{_examples(unequal[0])}, "
        f"{len(unequal[1])} missing{_examples(unequal[1])}"
    )


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [
        [_plain(value, field.type) for value in column.to_pylist()]
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _plain(value: Any, kind: Any) -> Any:
    """Values whose text is equal if they are: maps in order, no negative zero."""
    from pyarrow import types

    match value:
        case float():
            return 0.0 if value == 0 else value
        case Decimal():
            return value.normalize()
        case Mapping() | list() if types.is_map(kind):
            entries = value.items() if isinstance(value, Mapping) else value
            plain = [(_plain(key, kind.key_type), _plain(item, kind.item_type)) for key, item in entries]
            return sorted(plain, key=repr)
        case list():
            return [_plain(item, kind.value_type) for item in value]
        case dict():
            return tuple((field.name, _plain(value[field.name], field.type)) for field in kind)
    return value


def _unmatched(rows: Iterable[tuple[Any, ...]], counts: Counter[str]) -> list[tuple[Any, ...]]:
    """The rows of these texts, each as often as it is counted."""
    left = Counter(counts)
    picked = []
    for row in rows:
        text = repr(row)
        if left[text] > 0:
            left[text] -= 1
            picked.append(row)
    return picked


def _match_nearly(
    left: Sequence[tuple[Any, ...]], right: Sequence[tuple[Any, ...]], tolerance: float
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """What is left of both when rows that differ only in the last digits of floats have been paired."""
    waiting = list(right)
    alone = []
    for row in left:
        partner = next((index for index, other in enumerate(waiting) if _near(row, other, tolerance)), None)
        if partner is None:
            alone.append(row)
        else:
            del waiting[partner]
    return alone, waiting


def _near(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance**1.5)
    if isinstance(one, (list, tuple)) and type(one) is type(other):
        return len(one) == len(other) and all(map(lambda a, b: _near(a, b, tolerance), one, other))
    return bool(one == other)


def _examples(rows: Sequence[tuple[Any, ...]]) -> str:
    if not rows:
        return ""
    shown = ", ".join(str(row) for row in rows[:_SHOWN])
    return f" ({shown}{', ...' if len(rows) > _SHOWN else ''})"
