"""Fields of plans that an older server skips: the table, and what it finds in a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.newer_fields import NEWER_FIELDS, find_newer_field


def fields_of_relations() -> set[str]:
    """All that a relation may hold, by the installed client's protocol."""

    def below(descriptor: Any, seen: set[str]) -> Iterator[str]:
        seen.add(descriptor.full_name)
        for field in descriptor.fields:
            yield f"{descriptor.full_name.removeprefix('spark.connect.')}.{field.name}"
            if field.message_type is not None and field.message_type.full_name not in seen:
                yield from below(field.message_type, seen)

    return set(below(protos().Relation.DESCRIPTOR, set()))


def test_the_table_names_fields_that_a_plan_may_hold() -> None:
    assert set().union(*NEWER_FIELDS.values()) - fields_of_relations() == set()


def in_subquery() -> Any:
    """``WHERE id IN (SELECT ...)`` as pyspark's client sends it."""
    plan = protos().Relation()
    plan.filter.input.range.end = 3
    subquery = plan.filter.condition.subquery_expression
    subquery.in_subquery_values.add().unresolved_attribute.unparsed_identifier = "id"
    return plan


def named_source() -> Any:
    plan = protos().Relation()
    plan.limit.input.read.data_source.source_name = "orders"
    return plan


@pytest.mark.parametrize(
    ("plan", "release", "found"),
    [
        (in_subquery, "4.0.5", ("SubqueryExpression.in_subquery_values", "4.1")),
        (in_subquery, "4.1.4", None),
        (named_source, "4.0.5", ("Read.DataSource.source_name", "4.2")),
        (named_source, "4.1.4-amzn-0", ("Read.DataSource.source_name", "4.2")),
        (named_source, "4.2.0", None),
        (protos().Relation, "4.0.5", None),
    ],
)
def test_a_field_that_the_server_does_not_know_is_found_wherever_it_is(
    plan: Any, release: str, found: tuple[str, str] | None
) -> None:
    assert find_newer_field(plan(), release) == found
