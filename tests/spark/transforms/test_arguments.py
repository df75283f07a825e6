from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.spark.transforms.arguments import coerce_arguments


def transform(
    orders: Any, day: date, least: Decimal | None, top: int, share: float, strict: bool, at: datetime, note: str
) -> Any: ...


def test_text_of_a_template_becomes_what_the_transform_asks_for() -> None:
    given = {
        "day": "2026-01-02",
        "least": "1.50",
        "top": " 7 ",
        "share": "0.5",
        "strict": "True",
        "at": "2026-01-02T03:00:00+00:00",
        "note": "7",
    }
    assert coerce_arguments("vertex 'sums'", transform, given) == {
        "day": date(2026, 1, 2),
        "least": Decimal("1.50"),
        "top": 7,
        "share": 0.5,
        "strict": True,
        "at": datetime(2026, 1, 2, 3, tzinfo=UTC),
        "note": "7",
    }


def test_a_date_is_read_from_a_timestamp_and_nothing_is_none_where_that_is_allowed() -> None:
    found = coerce_arguments(
        "vertex 'sums'", partial(transform), {"day": "2026-01-02T00:00:00+00:00", "least": "", "top": 3}
    )
    assert found == {"day": date(2026, 1, 2), "least": None, "top": 3}


def test_what_is_not_annotated_or_unknown_stays_text() -> None:
    def loose(orders, day, other: Missing):  # type: ignore[no-untyped-def, name-defined]  # noqa: F821
        return orders

    assert coerce_arguments("vertex 'sums'", loose, {"day": "2026-01-02", "other": "1"}) == {
        "day": "2026-01-02",
        "other": "1",
    }


@pytest.mark.parametrize(
    ("name", "text", "kind"), [("day", "yesterday", "date"), ("top", "7.5", "int"), ("strict", "maybe", "bool")]
)
def test_text_that_cannot_be_read_names_vertex_argument_and_type(name: str, text: str, kind: str) -> None:
    with pytest.raises(JobGraphError) as refused:
        coerce_arguments("vertex 'sums'", transform, {name: text})
    assert f"vertex 'sums': argument {name!r} of its transform is {text!r}; expected {kind}, as the parameter" in str(
        refused.value
    )
