"""Stand-ins for rows that are not there yet: files without rows, by which Spark's planner says what it would read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_abs.spark.compile.vertices import CompiledVertex
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.proof.markers import CONF
from airflow_abs.spark.relations import Relation, read_files, rename_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

STAND_IN = "__airflow_abs_column_"
"""What the names of a stand-in's columns start with in a plan; its own number and that of the column follow."""


def stand_in(number: int, schema: StructType) -> Relation:
    """Files of no rows whose columns are found again in a plan, under the names of the schema."""
    from pyspark.sql.types import StructField, StructType

    fields = [
        StructField(f"{STAND_IN}{number}_{place}", entry.dataType, entry.nullable, entry.metadata)
        for place, entry in enumerate(schema.fields)
    ]
    return rename_columns(scan_nothing(StructType(fields)), schema.names)


def scan_nothing(schema: StructType) -> Relation:
    return read_files([], file_format="parquet", schema=schema.json())


def explain(session: Any, relation: Relation) -> str:
    plan = protos().Plan()
    plan.root.CopyFrom(relation)  # the constructor refuses deep plans
    return str(session.client.explain_string(plan, "formatted"))


def proof_settings(own: CompiledVertex) -> dict[str, str]:
    """The author's, as far as a proof leaves them."""
    return {key: value for key, value in own.spark_conf.items() if key not in CONF}


def only(schema: StructType, names: Sequence[str]) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([schema[name] for name in names])
