"""Keys that are proposed: by what a join compares and its readers group by; never more than was asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.graph.key_choice import InputColumn, KeyNeed, propose_keys

MOST = 8


def need(*values: str) -> KeyNeed:
    """``need("o.customer = c.customer", "o.day")``."""
    return KeyNeed(
        tuple(frozenset(InputColumn(*column.split(".")) for column in value.split(" = ")) for value in values)
    )


def test_both_sides_of_a_join_are_hashed_by_what_it_compares() -> None:
    assert propose_keys([need("o.customer = c.id")], {}, MOST) == [{"c": ("id",), "o": ("customer",)}]


def test_a_group_is_hashed_by_all_its_columns_or_else_by_one_of_them() -> None:
    assert propose_keys([need("o.a", "o.b")], {}, MOST) == [{"o": ("a", "b")}, {"o": ("a",)}, {"o": ("b",)}]


def test_the_keys_of_a_join_come_before_the_larger_ones_of_a_group_above_it() -> None:
    needs = [need("o.customer = c.id"), need("o.customer", "c.region")]
    assert propose_keys(needs, {}, MOST)[0] == {"c": ("id",), "o": ("customer",)}


def test_what_all_needs_have_in_common_serves_them_all() -> None:
    needs = [need("o.a", "o.b", "o.c"), need("o.c", "o.b"), need("o.b", "o.d")]
    assert propose_keys(needs, {}, MOST)[0] == {"o": ("b",)}


def test_without_anything_in_common_every_need_is_tried_in_order() -> None:
    needs = [need("o.customer = c.id"), need("c.region")]
    assert propose_keys(needs, {}, MOST) == [{"c": ("id",), "o": ("customer",)}, {"c": ("region",)}]


def test_columns_that_several_joins_compare_are_one() -> None:
    needs = [need("o.customer = c.id"), need("c.id = r.customer")]
    assert propose_keys(needs, {}, MOST)[0] == {"c": ("id",), "o": ("customer",), "r": ("customer",)}


def test_inputs_follow_the_number_and_the_order_of_keys_that_are_declared() -> None:
    needs = [need("o.a = p.x", "o.b = p.y")]
    assert propose_keys(needs, {"p": ("y", "x")}, MOST) == [{"o": ("b", "a")}]
    assert propose_keys(needs, {"p": ("z",)}, MOST)[0] == {"o": ("a",)}  # one key as well; the proof will refuse it


def test_an_input_with_two_columns_of_a_class_is_tried_by_each() -> None:
    found = propose_keys([need("o.manager = o.id"), need("o.id = c.id")], {}, MOST)
    assert {"c": ("id",), "o": ("id",)} in found
    assert {"c": ("id",), "o": ("manager",)} in found


def test_inputs_that_never_meet_get_keys_of_their_own_in_the_same_number() -> None:
    found = propose_keys([need("o.a", "o.b"), need("p.x")], {}, MOST)
    assert found == [{"o": ("a",), "p": ("x",)}, {"o": ("b",), "p": ("x",)}]


def test_nothing_is_proposed_for_nothing() -> None:
    assert propose_keys([], {}, MOST) == []
    assert propose_keys([KeyNeed((frozenset(),))], {}, MOST) == []


COLUMNS = st.builds(InputColumn, st.sampled_from("opq"), st.sampled_from("abc"))
NEEDS = st.lists(
    st.builds(KeyNeed, st.lists(st.frozensets(COLUMNS, min_size=1, max_size=3), min_size=1, max_size=3).map(tuple)),
    max_size=4,
)


FIXED = st.lists(st.sampled_from("abc"), min_size=1, unique=True).map(tuple)


@given(NEEDS, st.dictionaries(st.sampled_from("opq"), FIXED))
def test_proposals_are_few_name_columns_of_needs_and_are_as_many_for_every_input(
    needs: list[KeyNeed], fixed: dict[str, tuple[str, ...]]
) -> None:
    known = {column for each in needs for value in each.values for column in value}
    found = propose_keys(needs, fixed, MOST)
    assert len(found) <= MOST
    for keys in found:
        assert not keys.keys() & fixed.keys()
        assert len({len(each) for each in (*keys.values(), *fixed.values())}) == 1
        assert {InputColumn(name, key) for name, of in keys.items() for key in of} <= known
    assert found == propose_keys(needs, fixed, MOST)


@given(NEEDS)
def test_one_of_the_proposals_serves_every_need_if_one_column_is_in_all(needs: list[KeyNeed]) -> None:
    shared = frozenset({InputColumn("o", "k")})
    wanted = [KeyNeed((*each.values, shared)) for each in needs]
    assert not wanted or {"o": ("k",)} in propose_keys(wanted, {}, 1000)
