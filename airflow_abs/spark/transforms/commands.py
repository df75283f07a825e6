"""What a transform may ask of the session while it is compiled: queries, and nothing that acts or stays.

Spark runs a command in `spark.sql` at once, when the inputs are still empty.
"""

from __future__ import annotations

import re
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.spark.relations import Relation

_COMMENTS = re.compile(r"\A(?:\s|\(|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_NO_CODE = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`""", re.DOTALL
)  # comments, strings, quoted names
_QUERIES = frozenset({"SELECT", "VALUES", "TABLE", "MAP", "REDUCE"})
_EITHER = frozenset({"WITH", "FROM"})  # ... SELECT, or ... INSERT
# Explaining would tell too, but Spark runs a command that it explains if a DataFrame is among its arguments.
_WRITES = re.compile(
    r"\b(?:INSERT\s+(?:INTO|OVERWRITE)|DELETE\s+FROM|UPDATE\s+\S+.*?\sSET|MERGE\s.*?INTO)\s", re.I | re.S
)


def check_query(relation: Relation, who: str) -> None:
    """Refuse a command in `spark.sql` before Spark gets to run it; `relation` is what the client is about to send.

    Raises:
        JobGraphError: it is no query.
    """
    text = _text(relation)
    word = first_word(text)
    if word in _QUERIES or (word in _EITHER and not _WRITES.search(_NO_CODE.sub(" x ", text))):
        return
    raise JobGraphError(
        f"{who}: its transform runs the command {word or text[:20]!r} in spark.sql; expected a query "
        "(SELECT, WITH, VALUES, FROM, TABLE). A transform only builds a DataFrame: write with its sink, "
        "hand DataFrames to queries as arguments instead of views, and set the session with JobOptions(spark_conf=...)"
    )


def first_word(text: str) -> str:
    """The first word of SQL text in capitals, after comments and parentheses."""
    found = re.match(r"\w+", text[_COMMENTS.match(text).end() :])  # type: ignore[union-attr]
    return found[0].upper() if found else ""


def check_setting(operation: Any, who: str) -> None:
    """Refuse what changes the session's configuration: subtasks run in sessions of their own.

    Raises:
        JobGraphError: names the setting.
    """
    kind = operation.WhichOneof("op_type")
    if kind not in ("set", "unset"):
        return
    keys = [pair.key for pair in operation.set.pairs] + list(operation.unset.keys)
    raise JobGraphError(
        f"{who}: its transform sets {', '.join(keys)} in the session of plan, which no subtask shares; "
        "give it where that is declared, in options, as spark_conf={...}"
    )


def _text(relation: Relation) -> str:
    """The query that is about to be run, without those whose results are its arguments."""
    if relation.WhichOneof("rel_type") == "with_relations":
        return _text(relation.with_relations.root)
    return str(relation.sql.query)
