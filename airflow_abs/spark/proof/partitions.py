"""Spark partitions that the author asks for, and the functions that see them.

``repartition`` and its kind change no row, so `proof_copy` leaves them out: in the plan of the proof they would hide
what Spark needs. A function over partitions sees them all the same. Where there may be one, each stays in the plan as a
CollectMetrics: Spark moves nothing past it, and plans what is above it as if it were not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.non_repeatable import Repeatability, find_non_repeatable
from airflow_abs.spark.proof.explained import Operator, split_list
from airflow_abs.spark.proof.markers import PREFIX, Marker, find_attributes
from airflow_abs.spark.proof.operators import Rule, rule_of
from airflow_abs.spark.proof.rows import Partitions, keys_of_exchange, plain_keys
from airflow_abs.spark.relations import Relation, sql_expression
from airflow_abs.spark.template import messages_of

_ASKED = re.compile(rf"{PREFIX}partitions:([^:]+):(\d+):\d+, \[(.*)\]", re.DOTALL)
_KEY = re.compile(r"first\((.*), false\) AS key_\d+#\d+L?", re.DOTALL)
_HINTS = ("coalesce", "repartition", "repartition_by_range")
"""rebalance is none of them: Spark may cut what it brings together."""
_HINT_IN_SQL = re.compile(rf"/\*\+[^*]*\b({'|'.join(_HINTS)})\b", re.IGNORECASE)
_FUNCTIONS = {
    "MapInArrow": "mapInArrow()",
    "MapPartitions": "mapPartitions()",
    "MapPartitionsInRWithArrow": "dapply()",
    "SparkScriptTransformation": "TRANSFORM",
    "ArrowEvalPythonUDTF": "a table function",
    "BatchEvalPythonUDTF": "a table function",
}
_ITERATORS = (204, 251)  # pyspark.util.PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF and SQL_SCALAR_ARROW_ITER_UDF
ROW_NUMBER = "monotonically_increasing_id()"


def may_see_partitions(relation: Relation) -> bool:
    """Whether a plan may hold a function over partitions; of SQL that is not known before it is planned."""
    for message in messages_of(relation):
        name = message.DESCRIPTOR.name
        if name in ("MapPartitions", "SQL", "CommonInlineUserDefinedTableFunction"):
            return True
        if name == "PythonUDF" and message.eval_type in _ITERATORS:
            return True
    return any(value.kind is Repeatability.ROW_NUMBER for value in find_non_repeatable(relation))


def stand_in(message: Any) -> Relation | None:
    """What stays in the plan for a `repartition`, a `repartition_by_expression` or a `hint`.

    None for a hint that does not say how many partitions there are, or what is in each.
    """
    proto = protos()
    asked = getattr(message, message.WhichOneof("rel_type"))
    match message.WhichOneof("rel_type"):
        case "repartition":
            call, number, keys = "repartition" if asked.shuffle else "coalesce", asked.num_partitions, []
        case "repartition_by_expression":
            call, number, keys = _call_of(asked), asked.num_partitions, _columns_in(asked)
        case _ if asked.name.lower() in _HINTS:
            call, number, keys = f"hint({asked.name.lower()!r})", 0, []
        case _:
            return None
    metrics = [
        proto.Expression(
            alias=proto.Expression.Alias(
                expr=proto.Expression(
                    unresolved_function=proto.Expression.UnresolvedFunction(function_name="first", arguments=[key])
                ),
                name=[f"key_{place}"],
            )
        )
        for place, key in enumerate(keys or [sql_expression("true")])
    ]
    name = f"{PREFIX}partitions:{call}:{number}:{message.common.plan_id}"
    return proto.Relation(collect_metrics=proto.CollectMetrics(input=asked.input, name=name, metrics=metrics))


def find_partitions(operator: Operator) -> Partitions | None:
    """The partitions of the author's that an operator makes, or stands for."""
    arguments = operator.detail("Arguments")
    if rule_of(operator.name) is Rule.EXCHANGE and "REPARTITION_BY_COL" in arguments:
        return Partitions("DISTRIBUTE BY", 0, keys_of_exchange(arguments) or ())
    found = _ASKED.fullmatch(arguments) if operator.name == "CollectMetrics" else None
    if found is None:
        return None
    keys = [key[1] for entry in split_list(found[3]) if (key := _KEY.fullmatch(entry))]
    return Partitions(found[1], int(found[2]), () if keys == ["true"] else plain_keys(keys))


def function_over_partitions(operator: Operator, markers: Mapping[str, Marker]) -> str | None:
    """What sees a partition in an operator, in the author's words; None if nothing does."""
    if rule_of(operator.name) is Rule.MAP_IN_PANDAS:
        return "mapInPandas()" if find_attributes(operator, markers) is None else None
    if operator.name in _FUNCTIONS:
        return _FUNCTIONS[operator.name]
    if operator.name == "ArrowEvalPython" and operator.detail("Arguments").endswith(
        tuple(f", {each}" for each in _ITERATORS)
    ):
        return "a Python function of batches (Iterator)"
    return ROW_NUMBER if any(ROW_NUMBER in detail for detail in operator.details.values()) else None


def is_barrier(operator: Operator) -> bool:
    """Whether the tasks of a mapInPandas or a mapInArrow wait for each other, and may talk."""
    return operator.name in ("MapInPandas", "MapInArrow") and operator.detail("Arguments").endswith("], true")


def hint_in_sql(relation: Relation) -> str | None:
    """A hint for partitions in the text of a query, which the plan of the proof does not show."""
    texts = (message.query for message in messages_of(relation) if message.DESCRIPTOR.name == "SQL")
    return next((found[1].upper() for text in texts if (found := _HINT_IN_SQL.search(text))), None)


def _call_of(asked: Any) -> str:
    kinds = {expression.WhichOneof("expr_type") for expression in asked.partition_exprs}
    if "sort_order" in kinds:
        return "repartitionByRange"
    return "repartitionById" if "direct_shuffle_partition_id" in kinds else "repartition"


def _columns_in(asked: Any) -> list[Any]:
    """The keys that are columns: a computed one is no key of an edge."""
    return [each for each in asked.partition_exprs if each.WhichOneof("expr_type") == "unresolved_attribute"]
