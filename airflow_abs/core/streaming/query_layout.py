"""What a checkpoint fixes of its query, and why another version of the query cannot resume from it.

Schemas are Spark's own, as JSON: a name such as ``"long"``, or an object with a `type` (struct, array, map).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SparkType = str | Mapping[str, Any]

_KINDS = {
    "stateStoreSave": "an aggregation",
    "dedupe": "a deduplication",
    "dedupeWithinWatermark": "a deduplication within the watermark",
    "symmetricHashJoin": "a join of two streams",
    "sessionWindowStateStoreSaveExec": "an aggregation by session windows",
    "globalLimit": "a limit",
    "applyInPandasWithState": "applyInPandasWithState",
}
_SQL_NAMES = {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}


@dataclass(frozen=True, slots=True)
class StateStore:
    """One of an operator's stores; both are structs."""

    name: str
    key: SparkType
    value: SparkType


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """`kind` is Spark's name; without `stores` the schema of its state is unknown."""

    number: int
    kind: str
    stores: tuple[StateStore, ...] = ()

    @property
    def words(self) -> str:
        return _KINDS.get(self.kind, self.kind)


@dataclass(frozen=True, slots=True)
class QueryLayout:
    """Sources are identified by their order; `settings` are those that Spark fixes with the first batch."""

    sources: int
    operators: tuple[StatefulOperator, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


def find_misfits(kept: QueryLayout, wanted: QueryLayout) -> tuple[str, ...]:
    """Why a query that is laid out as `wanted` cannot resume from a checkpoint that is laid out as `kept`, in words for
    what was `kept`; none if it can.

    The rules are Spark's: as many sources; the same stateful operators in the same order; keys and values of their
    state with the same types in the same order, whatever their names, and no NULL where there was none.
    """
    found = []
    if kept.sources != wanted.sources:
        found.append(f"it reads {wanted.sources} sources, and the checkpoint has the positions of {kept.sources}")
    before = {operator.number: operator for operator in kept.operators}
    now = {operator.number: operator for operator in wanted.operators}
    for number in sorted(before.keys() | now.keys()):
        found += _misfits_of(number, before.get(number), now.get(number))
    return tuple(found)


def _misfits_of(number: int, kept: StatefulOperator | None, wanted: StatefulOperator | None) -> list[str]:
    if kept is None or wanted is None or kept.kind != wanted.kind:
        before = "nothing" if kept is None else kept.words
        now = "nothing" if wanted is None else wanted.words
        return [f"its stateful operator {number} is {now}, and in the checkpoint {before}"]
    found = []
    stores = {store.name: store for store in wanted.stores}
    for store in kept.stores:
        other = stores.get(store.name)
        if other is None:
            continue
        for part, was, has in (("key", store.key, other.key), ("value", store.value, other.value)):
            if not _goes_on(was, has):
                found.append(
                    f"the state of operator {number}, {kept.words}, has the {part} ({_describe(has)}), and in the "
                    f"checkpoint ({_describe(was)})"
                )
    return found


def _goes_on(was: SparkType, has: SparkType) -> bool:
    """Whether values of the type `has` can be kept where those of the type `was` are."""
    if isinstance(was, str) or isinstance(has, str) or was["type"] != has["type"]:
        return was == has
    match was["type"]:
        case "struct":
            pairs = list(zip(was["fields"], has["fields"], strict=False))
            same = len(was["fields"]) == len(has["fields"])
            return same and all(
                _goes_on(old["type"], new["type"]) and (old["nullable"] or not new["nullable"]) for old, new in pairs
            )
        case "array":
            return _goes_on(was["elementType"], has["elementType"]) and (was["containsNull"] or not has["containsNull"])
        case "map":
            return (
                _goes_on(was["keyType"], has["keyType"])
                and _goes_on(was["valueType"], has["valueType"])
                and (was["valueContainsNull"] or not has["valueContainsNull"])
            )
    return was == has


def _describe(kind: SparkType) -> str:
    """Of a struct its fields; of others their SQL name."""
    if isinstance(kind, str):
        return _SQL_NAMES.get(kind, kind.upper())
    match kind["type"]:
        case "struct":
            return ", ".join(
                f"{each['name']} {_nested(each['type'])}{'' if each['nullable'] else ' NOT NULL'}"
                for each in kind["fields"]
            )
        case "array":
            return f"ARRAY<{_nested(kind['elementType'])}>"
        case "map":
            return f"MAP<{_nested(kind['keyType'])}, {_nested(kind['valueType'])}>"
    return str(kind["type"])


def _nested(kind: SparkType) -> str:
    is_struct = not isinstance(kind, str) and kind["type"] == "struct"
    return f"STRUCT<{_describe(kind)}>" if is_struct else _describe(kind)
