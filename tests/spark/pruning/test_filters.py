"""Which filters are read of Spark's text, and what they are in SQL."""

from __future__ import annotations

import pytest

from airflow_abs.spark.pruning.filters import is_plain, read_condition, read_filters

TYPES = {"ds": "date", "st": "string", "h": "integer", "big": "long", "x y": "string", "price": "double"}


@pytest.mark.parametrize(
    ("shown", "sql"),
    [
        ("(ds#45 >= 2026-01-03)", "(`ds` >= CAST('2026-01-03' AS date))"),
        ("isnotnull(ds#45)", "(`ds` IS NOT NULL)"),
        ("isnull(h#7)", "(`h` IS NULL)"),
        ("(st#46 = a b:3)", "(`st` = CAST('a b:3' AS string))"),
        ("NOT (h#4 = -1)", "(NOT (`h` = CAST('-1' AS int)))"),
        ("StartsWith(st#46, 2026-)", "startswith(`st`, CAST('2026-' AS string))"),
        ("(cast(st#46 as date) > 2026-01-01)", "(CAST(`st` AS date) > CAST('2026-01-01' AS date))"),
        ("(year(ds#45) = 2026)", "(year(`ds`) = CAST('2026' AS int))"),
        ("st#46 IN (a,b)", "(`st` IN (CAST('a' AS string), CAST('b' AS string)))"),
        ("big#1L IN (1,10)", "(`big` IN (CAST('1' AS bigint), CAST('10' AS bigint)))"),
        ("(x y#3 = 1)", "(`x y` = CAST('1' AS string))"),
        (
            "((ds#45 > 2026-01-01) OR ((h#47 = 5) AND isnotnull(st#46)))",
            "((`ds` > CAST('2026-01-01' AS date)) OR ((`h` = CAST('5' AS int)) AND (`st` IS NOT NULL)))",
        ),
    ],
)
def test_a_filter_is_said_in_sql(shown: str, sql: str) -> None:
    assert read_filters(f"[{shown}]", TYPES) == [sql]


@pytest.mark.parametrize(
    "shown",
    [
        "(st#46 = a,b)",  # two literals, or one
        "NOT st#46 IN (a,b)",
        "big#1L INSET 1, 10",  # nothing says where the list ends
        "NOT ((ds#45 = 2026-01-01) OR st#46 IN (a,b))",
        "(st#46 = a) AND (b)",  # a literal that looks like more
        "(ds#45 = 20260101)",
        "(st#46 = null)",
        "(h#47 = st#46)",
        "(price#1 = 1.5)",
        "(other#1 = 1)",
        "(substring(st#46, 1, 3) = abc)",
        "(rand(5) < 1)",
        "dynamicpruningexpression(true)",
        "((ds#45 > 2026-01-01) OR (substring(st#46, 1, 3) = abc))",  # one side that is not read may let all through
        "(ds#45 = Subquery subquery#3, [id=#4])",
    ],
)
def test_a_filter_that_may_mean_something_else_is_passed_over(shown: str) -> None:
    assert read_filters(f"[isnotnull(ds#45), {shown}]", TYPES) == ["(`ds` IS NOT NULL)"]


def test_no_filters_are_none() -> None:
    assert read_filters("", TYPES) == []
    assert read_filters("[]", TYPES) == []


def test_a_value_is_plain_if_it_is_written_like_a_literal_that_is_read() -> None:
    assert [is_plain(value) for value in ("2026-01-01", "a b", "a,b", "a)", "x#1", "ü")] == [
        True,
        True,
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("shown", "parts"),
    [
        (
            "((isnotnull(price#1) AND (h#2 > 5)) AND (price#1 = 1.5))",
            ["(`price` IS NOT NULL)", "(`h` > CAST('5' AS int))"],
        ),
        ("((h#2 > 5) OR (h#2 < 1))", ["((`h` > CAST('5' AS int)) OR (`h` < CAST('1' AS int)))"]),
        ("((h#2 > 5) OR (price#1 = 1.5))", []),
        ("(cast(st#46 as int) > 5)", []),  # fails for some text
        ("(isnotnull(st#46) AND st#46 IN (a,b))", ["(`st` IS NOT NULL)"]),  # 'a,b', or two
        ("h#2 IN (1,2)", ["(`h` IN (CAST('1' AS int), CAST('2' AS int)))"]),
        ("", []),
    ],
)
def test_of_a_condition_every_part_is_read_that_has_one_meaning(shown: str, parts: list[str]) -> None:
    assert read_condition(shown, TYPES) == parts
