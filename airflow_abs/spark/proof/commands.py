"""What a transform may ask of the session while it is compiled: queries, and nothing that acts or stays.

Spark runs a command in `spark.sql` at once, when the inputs are still empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.relations import Relation

_COMMENTS = re.compile(r"\A(?:\s|\(|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_QUERIES = frozenset({"SELECT", "VALUES", "TABLE", "MAP", "REDUCE"})
_EITHER = frozenset({"WITH", "FROM"})  # ... SELECT, or ... INSERT
_MAY_WRITE = re.compile(r"\b(?:INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
_WRITES = re.compile(
    r"^[ :+|-]*'?(?:InsertInto\w*|DeleteFromTable|UpdateTable|MergeIntoTable|AppendData|Overwrite\w+)\b", re.MULTILINE
)


def check_query(explain: Callable[[Any, str], str], relation: Relation, vertex: str) -> None:
    """Refuse a command in `spark.sql` before Spark gets to run it.

    Args:
        explain: the client's way to have a plan explained; Spark does not run a command that it explains.
        relation: what the client is about to send.
        vertex: for messages.

    Raises:
        JobGraphError: it is no query.
    """
    for text in _texts(relation):
        word = first_word(text)
        if word in _QUERIES or (word in _EITHER and not (_MAY_WRITE.search(text) and _writes(explain, relation))):
            continue
        raise JobGraphError(
            f"vertex {vertex!r}: its transform runs the command {word or text[:20]!r} in spark.sql; expected a query "
            "(SELECT, WITH, VALUES, FROM, TABLE). A transform only builds a DataFrame: write with the vertex's sink, "
            "hand DataFrames to queries as arguments instead of views, and set the session with spark_conf= of the job"
        )


def first_word(text: str) -> str:
    """The first word of SQL text in capitals, after comments and parentheses."""
    found = re.match(r"\w+", text[_COMMENTS.match(text).end() :])  # type: ignore[union-attr]
    return found[0].upper() if found else ""


def check_setting(operation: Any, vertex: str) -> None:
    """Refuse what changes the session's configuration: subtasks run in sessions of their own.

    Raises:
        JobGraphError: names the setting.
    """
    kind = operation.WhichOneof("op_type")
    if kind not in ("set", "unset"):
        return
    keys = [pair.key for pair in operation.set.pairs] + list(operation.unset.keys)
    raise JobGraphError(
        f"vertex {vertex!r}: its transform sets {', '.join(keys)} in the session of plan, which no subtask shares; "
        "give it to the job or the vertex as spark_conf={...}"
    )


def refuse_cache(vertex: str) -> None:
    """Refuse `cache()` and `persist()`.

    Raises:
        JobGraphError: always.
    """
    raise JobGraphError(
        f"vertex {vertex!r}: its transform calls cache() or persist(), which keeps rows in the session of plan, and no "
        "subtask shares it; drop the call, or make what is used several times a vertex of its own"
    )


def _writes(explain: Callable[[Any, str], str], relation: Relation) -> bool:
    from pyspark.errors import PySparkException

    try:
        plan = protos().Plan()
        plan.root.CopyFrom(relation)
        explained = explain(plan, "extended")
    except PySparkException:
        return True  # whatever it is, Spark does not explain it
    return _WRITES.search(explained.partition("== Analyzed Logical Plan ==")[0]) is not None


def _texts(relation: Relation) -> list[str]:
    """The text that is about to be run: not that of queries whose results are its arguments."""
    if relation.WhichOneof("rel_type") == "with_relations":
        return _texts(relation.with_relations.root)
    return [relation.sql.query] if relation.WhichOneof("rel_type") == "sql" else []
