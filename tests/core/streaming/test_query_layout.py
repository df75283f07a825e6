"""What of a changed query does not fit its checkpoint, by declared layouts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.streaming.query_layout import QueryLayout, StatefulOperator, StateStore, find_misfits


def column(name: str, kind: Any, *, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {}}


def rows(*columns: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(columns)}


def aggregation(key: Any, value: Any, number: int = 0) -> StatefulOperator:
    return StatefulOperator(number, "stateStoreSave", (StateStore("default", key, value),))


def array(kind: Any, *, null: bool = True) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": null}


def mapping(key: Any, value: Any, *, null: bool = True) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": null}


WINDOW = rows(column("start", "timestamp"), column("end", "timestamp"))
KEY = rows(column("window", WINDOW, nullable=False), column("page", "string"))
COUNT = rows(column("count", "long", nullable=False))
COUNTED = QueryLayout(1, (aggregation(KEY, COUNT),))


def test_a_query_goes_on_from_its_own_checkpoint_whatever_its_columns_are_called_now() -> None:
    renamed = rows(column("w", WINDOW, nullable=False), column("site", "string"))
    assert find_misfits(COUNTED, COUNTED) == ()
    assert find_misfits(COUNTED, QueryLayout(1, (aggregation(renamed, COUNT),), {"any": "setting"})) == ()


def test_another_number_of_sources_is_told() -> None:
    assert find_misfits(QueryLayout(1), QueryLayout(2)) == (
        "it reads 2 sources, and the checkpoint has the positions of 1",
    )


def test_another_operator_or_none_is_told_by_its_place() -> None:
    distinct = QueryLayout(1, (StatefulOperator(0, "dedupe"),))
    assert find_misfits(COUNTED, distinct) == (
        "its stateful operator 0 is a deduplication, and in the checkpoint an aggregation",
    )
    assert find_misfits(COUNTED, QueryLayout(1)) == (
        "its stateful operator 0 is nothing, and in the checkpoint an aggregation",
    )
    assert find_misfits(distinct, QueryLayout(1, (*distinct.operators, StatefulOperator(1, "ofAnotherSpark")))) == (
        "its stateful operator 1 is ofAnotherSpark, and in the checkpoint nothing",
    )


def test_other_types_are_told_with_all_columns_of_the_key_or_the_value() -> None:
    by_number = rows(column("window", WINDOW, nullable=False), column("page", "long"))
    summed = rows(*COUNT["fields"], column("amounts", array(mapping("string", "decimal(10,2)"))))
    window = "window STRUCT<start TIMESTAMP, end TIMESTAMP> NOT NULL"
    assert find_misfits(COUNTED, QueryLayout(1, (aggregation(by_number, summed),))) == (
        f"the state of operator 0, an aggregation, has the key ({window}, page BIGINT), and in the checkpoint "
        f"({window}, page STRING)",
        "the state of operator 0, an aggregation, has the value (count BIGINT NOT NULL, amounts "
        "ARRAY<MAP<STRING, DECIMAL(10,2)>>), and in the checkpoint (count BIGINT NOT NULL)",
    )


@pytest.mark.parametrize(
    ("strict", "loose"),
    [
        (rows(column("a", "long", nullable=False)), rows(column("a", "long"))),
        (rows(column("a", array("long", null=False))), rows(column("a", array("long")))),
        (rows(column("a", mapping("long", "long", null=False))), rows(column("a", mapping("long", "long")))),
    ],
)
def test_a_null_may_not_come_where_none_was_kept_and_may_stay_away_where_some_was(strict: Any, loose: Any) -> None:
    without_null, with_null = (QueryLayout(1, (aggregation(key, COUNT),)) for key in (strict, loose))
    assert find_misfits(with_null, without_null) == ()
    assert len(find_misfits(without_null, with_null)) == 1


def test_a_store_that_is_described_on_one_side_only_is_left_to_spark() -> None:
    assert find_misfits(COUNTED, QueryLayout(1, (StatefulOperator(0, "stateStoreSave"),))) == ()


KINDS = st.recursive(
    st.sampled_from(["long", "string", "void"]),
    lambda inner: st.one_of(
        st.builds(lambda kind, null: array(kind, null=null), inner, st.booleans()),
        st.builds(lambda key, value, null: mapping(key, value, null=null), inner, inner, st.booleans()),
        st.lists(st.builds(lambda kind, null: column("c", kind, nullable=null), inner, st.booleans()), max_size=3).map(
            lambda columns: rows(*columns)
        ),
    ),
    max_leaves=6,
)


@given(KINDS, KINDS, KINDS)
def test_to_go_on_is_reflexive_and_transitive(first: Any, second: Any, third: Any) -> None:
    def goes_on(was: Any, has: Any) -> bool:
        return not find_misfits(QueryLayout(1, (aggregation(was, COUNT),)), QueryLayout(1, (aggregation(has, COUNT),)))

    assert goes_on(first, first)
    if goes_on(first, second) and goes_on(second, third):
        assert goes_on(first, third)
