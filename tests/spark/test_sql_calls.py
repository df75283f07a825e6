from __future__ import annotations

from collections.abc import Sequence

import pytest

from airflow_abs.spark.sql_calls import rewrite_calls, rewrite_keywords


def shout(name: str, arguments: Sequence[str]) -> str:
    return f"{name.upper()}[{'|'.join(arguments)}]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT f(a, g(b, ')')), h FROM t", "SELECT F[a|G[b|')']], h FROM t"),
        ("f()", "F[]"),
        ("F ( 1 )", "F[1]"),
        ("other(f(1), x)", "other(F[1], x)"),
        ("'f()' || \"f()\" || `f()` -- f()\n/* f() */ || f()", "'f()' || \"f()\" || `f()` -- f()\n/* f() */ || F[]"),
        ("'it''s f()' || f()", "'it''s f()' || F[]"),
        (r"'\' f()' || f()", r"'\' f()' || F[]"),
        ("db.f(1), f, ff(1), f (", "db.f(1), f, ff(1), f ("),
        ("f((1, 2), array(3, 4))", "F[(1, 2)|array(3, 4)]"),
    ],
)
def test_calls_are_found_where_sql_calls_a_function(text: str, expected: str) -> None:
    assert rewrite_calls(text, {"f", "g"}, shout) == expected


def test_what_the_rewriting_leaves_alone_keeps_its_rewritten_arguments() -> None:
    assert rewrite_calls("f(g(1), 2)", {"f", "g"}, lambda name, _: "7" if name == "g" else None) == "f(7, 2)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT today, x AS today, t.today FROM t", "SELECT TODAY[], x AS today, t.today FROM t"),
        ("today(), 'today', `today`, to_day", "today(), 'today', `today`, to_day"),
    ],
)
def test_a_keyword_is_neither_a_name_nor_a_call(text: str, expected: str) -> None:
    assert rewrite_keywords(text, {"today"}, shout) == expected
