"""What may be said of how a sink's rows lie in its files."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_abs.exchange.sources.files import Files


def test_lists_of_columns_are_kept_as_tuples_and_come_back_from_json() -> None:
    sink = Files("/mart", mode="overwrite_partitions", partition_by=["day"], sort_by=["id", "at"], files=2)  # type: ignore[arg-type]
    assert (sink.partition_by, sink.sort_by) == (("day",), ("id", "at"))
    assert Files.from_json(sink.to_json()) == sink


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition_by": "day"}, r"partition_by is 'day'; expected a list of columns, each once, such as \['day'\]"),
        ({"sort_by": ["id", "ID"]}, r"sort_by is \['id', 'ID'\]; expected a list of columns"),
        ({"files": 0}, "files is 0; expected a number of at least 1"),
        ({"files": True}, "files is True; expected"),
        ({"mode": "overwrite_partitions"}, "replaces partitions, and there are none; give partition_by="),
    ],
)
def test_anything_else_is_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Files("/mart", **options)
