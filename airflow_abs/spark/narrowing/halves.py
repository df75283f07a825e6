"""The two halves of an aggregate: what the producer writes of its rows, and what their consumer makes of that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_abs.spark.compile.key_types import is_key_type
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.narrowing.merging import NotMergedError
from airflow_abs.spark.relations import Relation

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

OF_PRODUCER = "airflow_abs.column"
"""In the metadata of a column: the one of the producer's that it is."""


@dataclass(frozen=True, slots=True)
class Halves:
    """What the producer writes, with a column that counts the rows of each partial result; what the consumer makes of
    it; and both in words. `groups` are those of a producer whose rows are joined first."""

    written: Relation
    rows_column: str
    merge: Callable[[Relation], Relation]
    told: tuple[str, ...]
    groups: tuple[str, ...] = ()


def ask_schema(session: Any, relation: Relation) -> StructType:
    """The columns of a relation, as Spark's analyzer has them."""
    plan = protos().Plan()
    plan.root.CopyFrom(relation)  # the constructor refuses deep plans
    schema: StructType = session.client.schema(plan)
    return schema


def mark_columns(schema: StructType) -> StructType:
    """A schema whose columns are known by `OF_PRODUCER` where they arrive unchanged."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [StructField(each.name, each.dataType, each.nullable, {OF_PRODUCER: each.name}) for each in schema.fields]
    )


def group(relation: Relation, groups: Sequence[Any], values: Sequence[Any]) -> Relation:
    """One row with these values for each of the groups."""
    proto = protos()
    return proto.Relation(
        aggregate=proto.Aggregate(
            input=relation,
            group_type=proto.Aggregate.GroupType.GROUP_TYPE_GROUPBY,
            grouping_expressions=groups,
            aggregate_expressions=values,
        )
    )


def check_groups(types: Iterable[DataType]) -> None:
    """Equal values of these types are the same.

    Raises:
        NotMergedError: those of one are not.
    """
    for each in types:
        if not is_key_type(each):
            raise NotMergedError(f"it groups by values of {each.simpleString()}")


def check_hashed(keys: Sequence[str], grouped: Collection[str]) -> None:
    """All rows of a group are in one subpartition.

    Raises:
        NotMergedError: they may not be.
    """
    for key in keys:
        if key not in grouped:
            raise NotMergedError(f"the edge is hashed by {key}, which is none of its groups")
