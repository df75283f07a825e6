"""Fields that came to plans after Spark 4.0: an older server silently skips them."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_abs.spark.connect.abilities import release_number
from airflow_abs.spark.relations import Relation
from airflow_abs.spark.template import messages_of

_PACKAGE = "spark.connect."


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# From the protocol files of the clients 4.0.4, 4.1.3 and 4.2.0, of all that a relation may hold: fields that are new in
# a message that is not. Python's client sets few of them.
NEWER_FIELDS: Mapping[tuple[int, int], frozenset[str]] = {
    (4, 1): _names(
        """
        DataType.geography DataType.geometry DataType.time Expression.Literal.data_type Expression.Literal.time
        Expression.direct_shuffle_partition_id GroupMap.transform_with_state_info MlRelation.model_summary_dataset
        Relation.chunked_cached_local_relation SubqueryExpression.in_subquery_values
        """
    ),
    (4, 2): _names(
        """
        Catalog.analyze_table Catalog.create_database Catalog.drop_database Catalog.drop_table Catalog.drop_view
        Catalog.get_create_table_string Catalog.get_table_properties Catalog.list_partitions Catalog.list_views
        Catalog.truncate_table Read.DataSource.source_name Relation.nearest_by_join Relation.relation_changes
        """
    ),
}
"""By the release line that brought them, as the protocol names them; a newer client's are not among them."""


def find_newer_field(relation: Relation, release: str) -> tuple[str, str] | None:
    """A field of the plan that a server of this release ("4.0.5") does not know, and the line that has it ("4.1")."""
    line = release_number(release)[:2]
    newer = {field: since for since, fields in NEWER_FIELDS.items() if since > line for field in fields}
    if not newer:
        return None
    for message in messages_of(relation):
        kind = message.DESCRIPTOR.full_name.removeprefix(_PACKAGE)
        for field, _ in message.ListFields():
            since = newer.get(f"{kind}.{field.name}")
            if since is not None:
                return f"{kind}.{field.name}", f"{since[0]}.{since[1]}"
    return None
