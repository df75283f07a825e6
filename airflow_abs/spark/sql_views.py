"""SQL over DataFrame arguments, run by several subtasks at once.

`spark.sql("... {orders}", orders=df)` reaches the server as text that reads a temporary view, with the view's rows
beside it. The server puts the view into the *session* while it analyses the text, and takes it away again. Subtasks
share their session, and the plan template gives the view one name: one subtask would read the rows of another, or find
no view.
"""

from __future__ import annotations

from airflow_abs.spark.relations import Relation
from airflow_abs.spark.template import messages_of


def rename_views(relation: Relation, suffix: str) -> None:
    """Give every view of a plan, in place, a name that no other operation has.

    Args:
        suffix: letters and digits, derived from the operation, so that the same operation sends the same plan.
    """
    for message in list(messages_of(relation)):
        if message.DESCRIPTOR.name != "WithRelations":
            continue
        names = [each.subquery_alias.alias for each in message.references if each.HasField("subquery_alias")]
        for reference in message.references:
            if reference.HasField("subquery_alias"):
                reference.subquery_alias.alias += suffix
        if message.root.HasField("sql"):
            for name in names:
                message.root.sql.query = message.root.sql.query.replace(name, name + suffix)
