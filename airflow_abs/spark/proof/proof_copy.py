"""The copy of a transform's relation that is planned for the proof: markers for inputs, no exchanges of the author.

What can be seen in the relation alone is refused here: operations whose columns come from data, and samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.non_repeatable import NonRepeatable, Repeatability
from airflow_abs.spark.proof.partitions import may_see_partitions, stand_in
from airflow_abs.spark.proof.refusals import Refusal, sample
from airflow_abs.spark.proof.rows import Rows, Spread
from airflow_abs.spark.relations import Relation
from airflow_abs.spark.template import messages_below, relations_in

# They say how Spark runs a plan and change no row. In the plan of the proof they would hide what Spark needs.
_WITHOUT_EFFECT = ("repartition", "repartition_by_expression", "hint")
_COLUMNS_FROM_DATA = {
    "crosstab": ("crosstab()", "groupBy('a').pivot('b', ['x', 'y']).count()"),
    "transpose": ("transpose()", "select() or unpivot() with the columns written out"),
}
_SAMPLES = ("sample", "sample_by")


def proof_copy(
    relation: Relation, inputs: Mapping[str, Callable[[], Relation]], opaque: Mapping[int, Callable[[], Relation]]
) -> Relation:
    """A copy with `inputs` in place of placeholders, by alias, and `opaque` in place of whole relations, by plan id."""
    copy = protos().Relation()
    copy.CopyFrom(relation)
    partitions_seen = may_see_partitions(relation)
    waiting: list[Any] = [copy]
    while waiting:
        message = waiting.pop()
        if message.DESCRIPTOR.name == "Relation":
            plan_id = message.common.plan_id
            if plan_id in opaque:
                message.CopyFrom(opaque[plan_id]())
                message.common.plan_id = plan_id
                continue
            if message.subquery_alias.alias in inputs:
                message.subquery_alias.input.CopyFrom(inputs[message.subquery_alias.alias]())
                continue
            _pass_on(message, partitions_seen=partitions_seen)
        waiting.extend(messages_below(message))
    return copy


def check_columns_known(relation: Relation) -> None:
    """Refuse operations that take their columns from data: a placeholder has none, so columns would be lost.

    Raises:
        Refusal: names the operation.
    """
    for message in relations_in(relation):
        kind = message.WhichOneof("rel_type")
        if kind in _COLUMNS_FROM_DATA:
            what, instead = _COLUMNS_FROM_DATA[kind]
            raise _from_data(what, instead, kind)
        if kind == "aggregate" and message.aggregate.HasField("pivot") and not message.aggregate.pivot.values:
            raise _from_data("pivot() without values", "pivot('c', ['a', 'b'])", kind)


def check_samples(relation: Relation) -> None:
    """Refuse samples; one by strata is only a filter in the plan.

    Raises:
        Refusal: there is one.
    """
    if any(message.WhichOneof("rel_type") in _SAMPLES for message in relations_in(relation)):
        raise sample(Rows(Spread.DIVIDED))


def check_values(values: tuple[NonRepeatable, ...], *, reads_source: bool) -> None:
    """Refuse values that name Spark's partitions and the exchange's files, which no author can mean.

    Raises:
        Refusal: the first of them.
    """
    for value in values:
        if value.kind is Repeatability.PARTITION or (
            value.kind is Repeatability.FILE and not (reads_source and value.function == "input_file_name")
        ):
            raise Refusal(
                f"{value.function}()",
                "depends on how a subtask's rows lie in Spark's partitions and files, not on the rows",
                "use a column of the data instead"
                + (" (in the vertex that has the source, input_file_name())" if "file" in value.function else ""),
                right_alone=value.kind is Repeatability.PARTITION,
            )


def _pass_on(message: Any, *, partitions_seen: bool) -> None:
    """Let a relation without effect on rows pass its input on; columns may be looked up by its plan id, so it stays."""
    proto = protos()
    kind = message.WhichOneof("rel_type")
    if kind not in _WITHOUT_EFFECT:
        return
    asked = stand_in(message) if partitions_seen else None
    if asked is not None:
        message.collect_metrics.CopyFrom(asked.collect_metrics)
        return
    child = proto.Relation()
    child.CopyFrom(getattr(message, kind).input)
    message.filter.input.CopyFrom(child)
    message.filter.condition.literal.boolean = True


def _from_data(what: str, instead: str, kind: str) -> Refusal:
    return Refusal(
        what,
        "takes its columns from the data, of which there is none when a transform is compiled",
        f"write {instead}",
        (kind,),
        partial=False,
        right_alone=False,
    )
