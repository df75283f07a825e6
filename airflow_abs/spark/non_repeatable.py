"""Values that are not a function of the rows: random numbers, numbers of rows and partitions, files, the time.

They are found in the unresolved plan by the names of functions, and in SQL text by its words, so a comment may be taken
for one; none is overlooked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from airflow_abs.spark.relations import Relation
from airflow_abs.spark.template import messages_of


class Repeatability(StrEnum):
    """In which way a value may differ from one subtask, or one try, to the next."""

    RANDOM = "random"
    ROW_NUMBER = "row number"
    TIME = "time"
    PARTITION = "partition"
    FILE = "file"
    PYTHON = "python"


_FUNCTIONS = {
    **dict.fromkeys(("rand", "random", "randn", "uuid", "shuffle", "randstr", "uniform"), Repeatability.RANDOM),
    "monotonically_increasing_id": Repeatability.ROW_NUMBER,
    **dict.fromkeys(
        ("current_timestamp", "current_date", "now", "curdate", "localtimestamp", "current_time", "unix_timestamp"),
        Repeatability.TIME,
    ),
    "spark_partition_id": Repeatability.PARTITION,
    **dict.fromkeys(("input_file_name", "input_file_block_start", "input_file_block_length"), Repeatability.FILE),
}
# With a value to convert these are plain functions of it.
_WITHOUT_ARGUMENTS_ONLY = frozenset({"unix_timestamp"})
_WORD = re.compile(r"\b(" + "|".join(sorted(_FUNCTIONS, key=len, reverse=True)) + r")\b", re.IGNORECASE)
_BARE = frozenset({"current_timestamp", "current_date", "localtimestamp", "current_time"})  # SQL needs no parentheses
_CONVERTS = re.compile(r"\s*\(\s*[^)\s]")
_CALLED = re.compile(r"\s*\(")


@dataclass(frozen=True, slots=True)
class NonRepeatable:
    """One function of a transform whose value is not a function of its rows."""

    function: str
    kind: Repeatability


def find_non_repeatable(relation: Relation) -> tuple[NonRepeatable, ...]:
    """All such functions of a plan, each once, by name; those in SQL text too."""
    found: set[NonRepeatable] = set()
    for message in messages_of(relation):
        match message.DESCRIPTOR.name:
            case "UnresolvedFunction":
                found |= _called(message.function_name, bool(message.arguments))
            case "SQL":
                found |= _in_text(message.query)
            case "ExpressionString":
                found |= _in_text(message.expression)
            case "CommonInlineUserDefinedFunction" if not message.deterministic:
                found.add(NonRepeatable(message.function_name, Repeatability.PYTHON))
    return tuple(sorted(found, key=lambda entry: (entry.kind, entry.function)))


def _called(name: str, with_arguments: bool) -> set[NonRepeatable]:
    kind = _FUNCTIONS.get(name.lower())
    if kind is None or (with_arguments and name.lower() in _WITHOUT_ARGUMENTS_ONLY):
        return set()
    return {NonRepeatable(name.lower(), kind)}


def _in_text(text: str) -> set[NonRepeatable]:
    found: set[NonRepeatable] = set()
    for word in _WORD.finditer(text):
        if word[1].lower() in _BARE or _CALLED.match(text, word.end()):
            found |= _called(word[1], _CONVERTS.match(text, word.end()) is not None)
    return found
