"""Stand-ins for the inputs of a transform, such that Spark's planner assumes of each just what the exchange gives.

A marker is a Python function over a range of numbers, named so that it is found again in the physical plan. Nothing is
ever run: the planner sees an opaque operator with the columns of the input, that it can neither fold nor look through.
The range of a divided input is so large that Spark never broadcasts what comes from it; that of a broadcast input has
one row, in one partition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_abs.core.sql_names import quote
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.proof.explained import Operator
from airflow_abs.spark.proof.rows import Keys
from airflow_abs.spark.relations import Relation, read_files, sql_expression

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PREFIX = "__airflow_abs_proof_"
_MARKED = re.compile(rf"({PREFIX}\w+)\((.*?)\)#\d+L?, \[(.*)\], (?:true|false)", re.DOTALL)
_MAP_PANDAS_ITER = 205  # pyspark.util.PythonEvalType.SQL_MAP_PANDAS_ITER_UDF
_HUGE = 10**15
_PARTITIONS = 1021  # a number that Spark has no reason to choose by itself
NO_FILES = "InMemoryFileIndex []"
"""What Spark calls the files of a reader that was given none."""
_RULES = "org.apache.spark.sql.catalyst.optimizer."

CONF: Mapping[str, str] = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.autoBroadcastJoinThreshold": "1g",
    "spark.sql.cbo.enabled": "false",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    # With one partition a group's exchange would gather all rows, and Spark would plan none for what is above it.
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.runtimeFilter.semiJoinReduction.enabled": "false",
    "spark.sql.exchange.reuse": "false",
    "spark.sql.execution.reuseSubquery": "false",
    "spark.sql.debug.maxToStringFields": "100000",
    # What is empty today is not so tomorrow; and an author's own exchange would take the place of ours.
    "spark.sql.optimizer.excludedRules": ",".join(
        _RULES + rule for rule in ("PropagateEmptyRelation", "ConvertToLocalRelation", "CollapseRepartition")
    ),
}
"""How a session is set for the time of a proof: the plan is Spark's plain one, from the plan's text alone."""


@dataclass(frozen=True, slots=True)
class Marker:
    """One input as the exchange gives it.

    `keys` are its hash keys with the type that each is hashed as, None for its own. `source` is True for files;
    `format` is theirs if the transform asks for their metadata, which only a reader of files has. `inferred`: `plan`
    found out how its rows are distributed.
    """

    name: str
    input: str
    columns: tuple[str, ...]
    replicated: bool = False
    keys: tuple[tuple[str, str | None], ...] = ()
    source: bool = False
    format: str | None = None
    inferred: bool = False

    def describe(self) -> str:
        """``orders is hashed by customer_id``."""
        if self.replicated:
            how = "broadcast"
        elif self.keys:
            how = f"hashed by {', '.join(key for key, _ in self.keys)}"
        else:
            how = "distributed by files" if self.source else "spread by no key"
        return f"{self.input} is {how}{', inferred' if self.inferred else ''}"

    def relation(self, schema: StructType) -> Relation:
        """The relation to be planned in place of the input."""
        if self.format is not None:
            return read_files([], file_format=self.format, schema=schema.json())
        leaf = _leaf(self, schema)
        if not self.keys:
            return leaf
        proto = protos()
        keys = [sql_expression(_key_text(quote(key), cast)) for key, cast in self.keys]
        by_key = proto.RepartitionByExpression(input=leaf, partition_exprs=keys, num_partitions=_PARTITIONS)
        return proto.Relation(repartition_by_expression=by_key)

    def keys_in(self, attributes: Sequence[str]) -> Keys:
        """The hash keys in Spark's text; `attributes` are the marker's columns there, in order."""
        own = dict(zip(self.columns, attributes, strict=True))
        return tuple(_key_text(own[key], cast) for key, cast in self.keys)


def find_marker(operator: Operator, markers: Mapping[str, Marker]) -> tuple[Marker, Keys] | None:
    """The marker that an operator stands for, with its keys in Spark's text; None if it is the author's function."""
    found = find_attributes(operator, markers)
    if found is None:
        return None
    marker, attributes = found
    # Without keys that can be found the rows count as spread by no key.
    return marker, marker.keys_in(attributes) if attributes and marker.keys else ()


def find_attributes(operator: Operator, markers: Mapping[str, Marker]) -> tuple[Marker, Keys] | None:
    """The marker with the attributes of its columns, in order; () if they cannot be told apart for certain."""
    found = _MARKED.fullmatch(operator.detail("Arguments"))
    if found is None or found[1] not in markers:
        return None
    marker = markers[found[1]]
    pattern = ", ".join(f"({re.escape(column)}#\\d+L?)" for column in marker.columns)
    attributes = re.fullmatch(pattern, found[3], re.DOTALL)
    return marker, attributes.groups() if attributes else ()


def _key_text(column: str, cast: str | None) -> str:
    return column if cast is None else f"cast({column} as {cast})"


def _leaf(marker: Marker, schema: StructType) -> Relation:
    from pyspark.sql.connect.types import pyspark_types_to_proto_types

    proto: Any = protos()
    rows, partitions = (1, 1) if marker.replicated else (_HUGE, _PARTITIONS)
    function = proto.CommonInlineUserDefinedFunction(
        function_name=marker.name,
        deterministic=True,
        python_udf=proto.PythonUDF(
            output_type=pyspark_types_to_proto_types(schema), eval_type=_MAP_PANDAS_ITER, command=b"", python_ver="3"
        ),
    )
    numbers = proto.Relation(range=proto.Range(start=0, end=rows, step=1, num_partitions=partitions))
    return proto.Relation(map_partitions=proto.MapPartitions(input=numbers, func=function))
