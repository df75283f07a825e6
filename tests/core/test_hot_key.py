from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_abs.core.hot_key import HotKey

MIB = 2**20
FOUND = HotKey("enriched.orders", 50, 176 * MIB, 2 * MIB, ("customer_id",), ("17",), 9_700, 10_000)


def test_it_is_told_with_its_place_its_size_and_its_share() -> None:
    assert FOUND.describe() == (
        "subpartition 50 of orders holds 176.0 MiB, 88 times the median: customer_id = 17 has 97% of the 10,000 rows "
        "looked at"
    )


def test_a_key_of_several_columns_names_them_all_and_null_is_said_as_sql_does() -> None:
    assert replace(FOUND, columns=("region", "day"), values=("EU", None)).key == "region = EU, day = NULL"


@pytest.mark.parametrize(
    ("found", "shared", "splittable", "advice"),
    [
        (FOUND, True, True, "its rows are distributed to several subtasks already: nothing has to be done"),
        (FOUND, False, True, "too few subtasks wrote it: give its producer a smaller target_bytes"),
        (FOUND, False, False, "say VertexOptions(join='inner') (or 'left', ...)"),
        (FOUND, False, False, "do so by customer_id and another column first"),
        (replace(FOUND, values=(None,)), False, False, "leave them out before this edge"),
        (replace(FOUND, rows=900), False, False, "no single key makes it hot: a higher max_parallelism"),
    ],
)
def test_what_to_do_follows_from_what_it_is(found: HotKey, shared: bool, splittable: bool, advice: str) -> None:
    assert advice in found.advise(shared=shared, splittable=splittable)
