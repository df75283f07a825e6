"""Reading Spark's explanations: trees, details, subqueries, and what cannot be read."""

from __future__ import annotations

import pytest

from airflow_abs.spark.proof.explained import UnreadablePlanError, read_plan, split_list
from airflow_abs.spark.proof.rows import (
    follow_names,
    groups_are_together,
    keys_of_exchange,
    pairs_are_together,
    plain_keys,
)

PLAN = """== Physical Plan ==
* Project (4)
+- * SortMergeJoin Inner (3)
   :- Scan a (1)
   +- * Range (2)


(1) Scan a
Output [2]: [k#1, g#2]

(2) Range [codegen id : 1]
Output [1]: [id#3L]
Arguments: Range (0, 5, step=1, splits=Some(2))

(3) SortMergeJoin [codegen id : 2]
Left keys [1]: [k#1]
Right keys [1]: [id#3L]
Join type: Inner
Join condition: (g#2 = two
lines)

(4) Project [codegen id : 2]
Output [1]: [k#1 AS key#4]

===== Subqueries =====

Subquery:1 Hosting operator id = 3 Hosting Expression = Subquery scalar-subquery#5, [id=#6]
HashAggregate (6)
+- Range (5)


(5) Range
Output [1]: [id#7L]

(6) HashAggregate
Keys: []
"""


def test_trees_details_and_subqueries_are_read() -> None:
    plan = read_plan(PLAN)
    join = plan.root.children[0]
    assert (plan.root.name, join.name, [child.name for child in join.children]) == (
        "Project",
        "SortMergeJoin Inner",
        ["Scan a", "Range"],
    )
    assert join.details == {
        "Left keys": "[k#1]",
        "Right keys": "[id#3L]",
        "Join type": "Inner",
        "Join condition": "(g#2 = two\nlines)",
    }
    (subquery,) = plan.subqueries
    assert (subquery.name, subquery.detail("Keys"), subquery.detail("Functions")) == ("HashAggregate", "[]", "")
    assert sorted(operator.number for operator in plan.operators()) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected '== Physical Plan ==', found nothing"),
        ("== Physical Plan ==\n\n", "an empty tree"),
        ("== Physical Plan ==\nProject without a number\n", "not an operator: 'Project without a number'"),
        ("== Physical Plan ==\nRange (1)\nRange (2)\n", "a second root: 'Range (2)'"),
        ("== Physical Plan ==\nProject (1)\n+- Range (1)\n", "operator (1) appears twice"),
        (
            "== Physical Plan ==\nRange (1)\n\n(1) Range\nOutput: x\n\n(1) Range\n",
            "the details of operator (1) appear twice",
        ),
        ("== Physical Plan ==\nRange (1)\n\n(2) Range\n", "details of an operator (2) that is in no tree"),
        (PLAN.replace("HashAggregate (6)\n+- Range (5)\n", ""), "a subquery without a tree"),
    ],
)
def test_what_cannot_be_read_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(UnreadablePlanError) as caught:
        read_plan(text)
    assert str(caught.value).startswith(problem)


def test_lists_are_cut_outside_of_parentheses() -> None:
    assert split_list("[a#1, f(b#2, [c, d]), e#3]") == ["a#1", "f(b#2, [c, d])", "e#3"]
    assert split_list("[coalesce(s#1, ), isnull(s#1)]") == ["coalesce(s#1, )", "isnull(s#1)"]
    assert split_list("[]") == []


def test_keys_of_an_exchange_are_those_it_hashes_by() -> None:
    asked = "hashpartitioning(coalesce(k#1, 0), isnull(k#1), g#2, 200), ENSURE_REQUIREMENTS, [plan_id=7]"
    assert keys_of_exchange(asked) == ("k#1", "g#2")
    assert keys_of_exchange("SinglePartition, ENSURE_REQUIREMENTS, [plan_id=7]") is None
    assert keys_of_exchange("rangepartitioning(k#1 ASC NULLS FIRST, 200), ENSURE_REQUIREMENTS") is None


def test_null_safe_and_floating_keys_are_plain_ones_in_other_words() -> None:
    floating = "knownfloatingpointnormalized(normalizenanandzero({}))"
    assert plain_keys([floating.format("k#1")]) == ("k#1",)
    assert plain_keys([f"coalesce({floating.format('k#1')}, 0.0)", f"isnull({floating.format('k#1')})"]) == ("k#1",)
    # Another column's isnull() tells NULL from 0 for that one only.
    assert plain_keys(["coalesce(k#1, 0)", "isnull(g#2)"]) == ("coalesce(k#1, 0)", "isnull(g#2)")
    assert plain_keys(["coalesce(k#1, 0)"]) == ("coalesce(k#1, 0)",)


def test_groups_are_together_if_every_key_is_among_them_or_what_it_is_cast_from() -> None:
    keys = frozenset({("k#1", "cast(g#2 as bigint)")})
    assert groups_are_together(keys, ("g#2", "x#3", "k#1"))
    assert not groups_are_together(keys, ("k#1",))
    assert not groups_are_together(frozenset(), ("k#1",))


def test_pairs_are_together_if_both_sides_were_hashed_by_what_is_compared() -> None:
    left, right = frozenset({("a#1", "b#2")}), frozenset({("c#3", "d#4")})
    assert pairs_are_together(left, right, [("b#2", "d#4"), ("x#5", "y#6"), ("a#1", "c#3")])
    assert not pairs_are_together(left, right, [("a#1", "d#4"), ("b#2", "c#3")])
    assert not pairs_are_together(left, frozenset({("c#3",)}), [("a#1", "c#3")])
    wide, wider = frozenset({("cast(a#1 as bigint)",)}), frozenset({("cast(c#3 as decimal(20,0))",)})
    assert pairs_are_together(wide, frozenset({("cast(c#3 as bigint)",)}), [("a#1", "c#3")])
    assert not pairs_are_together(wide, wider, [("a#1", "c#3")])


def test_a_projection_gives_keys_further_names() -> None:
    keys = frozenset({("k#1", "g#2")})
    assert follow_names(keys, ["k#1 AS key#7", "g#2", "(g#2 + 1) AS g#8"]) == keys | {("key#7", "g#2")}
