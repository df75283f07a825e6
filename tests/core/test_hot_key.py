from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_abs.core.hot_key import HotKey

MIB = 2**20
FOUND = HotKey("enriched.orders", 50, 176 * MIB, 2 * MIB, ("customer_id",), ("17",), 9_700, 10_000)


def test_it_is_told_with_its_place_its_size_and_its_share() -> None:
    assert FOUND.describe() == (
        "subpartition 50 of orders holds 176.0 MiB, 88 times the median: customer_id = 17 has 97% of the 10,000 "
        "sampled rows"
    )


def test_a_key_of_several_columns_names_them_all_and_null_is_said_as_sql_does() -> None:
    assert replace(FOUND, columns=("region", "day"), values=("EU", None)).key == "region = EU, day = NULL"


WHY = "an aggregate (groupBy, agg, count, ...) needs all rows of a group in one subtask"


@pytest.mark.parametrize(
    ("found", "shared", "kept_whole", "advice"),
    [
        (FOUND, True, None, "its rows are distributed to several subtasks already: nothing has to be done"),
        (FOUND, False, None, "it may be distributed, but a parallelism of the vertex,"),
        (FOUND, False, WHY, "it is not distributed, since an aggregate (groupBy, agg, count, ...) needs all rows"),
        (FOUND, False, WHY, "aggregate by customer_id and another column first"),
        (FOUND, False, "", "it is not distributed: move an earlier join into a step of its own"),
        (replace(FOUND, values=(None,)), False, WHY, "leave them out before this edge"),
        (replace(FOUND, values=(None,)), False, None, "it may be distributed, but"),
        (replace(FOUND, rows=900), False, WHY, "no single key makes it hot: a higher max_parallelism"),
    ],
)
def test_what_to_do_follows_from_what_it_is(found: HotKey, shared: bool, kept_whole: str | None, advice: str) -> None:
    assert advice in found.advise(shared=shared, kept_whole=kept_whole)
