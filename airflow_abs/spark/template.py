"""Plan templates: a compiled Spark plan whose inputs are placeholders, and what a subtask puts in their place.

A placeholder is a `SubqueryAlias` with a reserved name. The user's code may put it anywhere (below SQL, in a self-join,
in a subquery of an expression); it is found by walking every nested message of the protobuf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from airflow_abs.core.graph.join_types import JoinType
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.relations import Relation

PLACEHOLDER_PREFIX = "__airflow_abs_input_"
_INLINED_PREFIX = "__airflow_abs_inlined_"

_SHUFFLING = frozenset(
    {"join", "aggregate", "deduplicate", "set_op", "group_map", "co_group_map", "as_of_join", "lateral_join", "sql"}
    | {
        "repartition",
        "repartition_by_expression",
        "limit",
        "offset",
        "tail",
        "sort",
        "transpose",
        "summary",
        "describe",
    }
)
_METADATA = "_metadata"
_TOO_LARGE = "a local DataFrame too large to be part of a plan; write it to files and read them as a source"
_SESSION_BOUND = {
    "cached_remote_relation": "a checkpoint, which only its own session can read",
    "cached_local_relation": _TOO_LARGE,
    "chunked_cached_local_relation": _TOO_LARGE,
}


def find_placeholders(relation: Relation) -> frozenset[str]:
    """The names of all placeholders in a plan."""
    return frozenset(alias.alias for alias in _aliases(relation))


def bind(relation: Relation, inputs: Mapping[str, Callable[[], Relation]]) -> Relation:
    """A copy of the template with every placeholder's input replaced; a placeholder met twice is built twice.

    Raises:
        KeyError: the template has a placeholder for which `inputs` has nothing.
    """
    bound = protos().Relation()
    bound.CopyFrom(relation)
    for alias in list(_aliases(bound)):
        alias.input.CopyFrom(inputs[alias.alias]())
    return bound


def inline(relation: Relation, plans: Mapping[str, Relation]) -> Relation:
    """A copy of the template with plans in place of these placeholders, which are none after it; others stay.

    The alias around each stays, too: columns may be looked up by its plan id.
    """
    inlined = protos().Relation()
    inlined.CopyFrom(relation)
    for alias in list(_aliases(inlined)):
        if alias.alias in plans:
            alias.input.CopyFrom(plans[alias.alias])
            alias.alias = inlined_name(alias.alias)
    return inlined


def inlined_name(placeholder: str) -> str:
    """The alias around the plan that took the place of a placeholder."""
    return placeholder.replace(PLACEHOLDER_PREFIX, _INLINED_PREFIX)


def wrap_inlined(relation: Relation, wrap: Callable[[str, Relation], Relation]) -> Relation:
    """A copy of the plan with something around each plan that was inlined: `wrap` gets its alias and the plan."""
    wrapped = protos().Relation()
    wrapped.CopyFrom(relation)
    found = [
        message
        for message in messages_of(wrapped)
        if message.DESCRIPTOR.name == "SubqueryAlias" and message.alias.startswith(_INLINED_PREFIX)
    ]
    for alias in reversed(found):  # inner ones first: what is around them is copied with them
        inner = protos().Relation()
        inner.CopyFrom(alias.input)
        alias.input.CopyFrom(wrap(alias.alias, inner))
    return wrapped


def may_shuffle(relation: Relation) -> bool:
    """True if some operator of the plan needs rows moved between Spark partitions.

    It is read from the unresolved plan, where SQL text is opaque: SQL, windows and global sorts count as shuffling.
    """
    for message in messages_of(relation):
        if message.DESCRIPTOR.name == "Window":
            return True
        if message.DESCRIPTOR.name == "Relation" and message.WhichOneof("rel_type") in _SHUFFLING:
            return True
    return False


def find_joins(relation: Relation) -> list[tuple[JoinType | None, Relation, Relation]]:
    """Type (None for a cross join) and both sides of every join in a plan; a plan met in two places counts twice."""
    kinds = protos().Join.JoinType
    names = {
        kinds.JOIN_TYPE_INNER: JoinType.INNER,
        kinds.JOIN_TYPE_LEFT_OUTER: JoinType.LEFT,
        kinds.JOIN_TYPE_RIGHT_OUTER: JoinType.RIGHT,
        kinds.JOIN_TYPE_FULL_OUTER: JoinType.FULL,
        kinds.JOIN_TYPE_LEFT_SEMI: JoinType.SEMI,
        kinds.JOIN_TYPE_LEFT_ANTI: JoinType.ANTI,
    }
    return [
        (names.get(message.join_type), message.left, message.right)
        for message in messages_of(relation)
        if message.DESCRIPTOR.name == "Join"
    ]


def find_session_bound(relation: Relation) -> str | None:
    """What in the plan only its own session can read, in words; None if a new session can run it."""
    for message in relations_in(relation):
        found = _SESSION_BOUND.get(message.WhichOneof("rel_type") or "")
        if found:
            return found
    return None


def reads_stream(relation: Relation) -> bool:
    """Whether a plan reads without an end (``spark.readStream``)."""
    reads = (message for message in relations_in(relation) if message.WhichOneof("rel_type") == "read")
    return any(message.read.is_streaming for message in reads)


def _aliases(relation: Relation) -> Iterator[Any]:
    for message in messages_of(relation):
        if message.DESCRIPTOR.name == "SubqueryAlias" and message.alias.startswith(PLACEHOLDER_PREFIX):
            yield message


def names_metadata(relation: Relation) -> bool:
    """Whether a plan may read ``_metadata``, the hidden column of files."""
    return any(
        descriptor.type == descriptor.TYPE_STRING and _METADATA in str(value)
        for message in messages_of(relation)
        for descriptor, value in message.ListFields()
    )


def relations_in(relation: Relation) -> Iterator[Any]:
    """Every relation below, itself included, those in expressions too."""
    return (message for message in messages_of(relation) if message.DESCRIPTOR.name == "Relation")


def messages_of(root: Any) -> Iterator[Any]:
    """Every message below `root`, itself first; iterative, because user plans can be deeper than Python's stack."""
    waiting = [root]
    while waiting:
        message = waiting.pop()
        yield message
        waiting.extend(messages_below(message))


def messages_below(message: Any) -> Iterator[Any]:
    """The messages that a message holds directly."""
    for descriptor, value in message.ListFields():
        if descriptor.type != descriptor.TYPE_MESSAGE:
            continue
        if descriptor.message_type.GetOptions().map_entry:
            if descriptor.message_type.fields_by_name["value"].type == descriptor.TYPE_MESSAGE:
                yield from value.values()
        elif hasattr(value, "DESCRIPTOR"):
            yield value
        else:
            yield from value
