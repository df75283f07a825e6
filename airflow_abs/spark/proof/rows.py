"""What is known of the rows at one place of a physical plan: who has them, and which of them are together.

Expressions are Spark's own text. An attribute in it carries a number (``region#12``) that Spark gives to nothing else,
so equal text is the same value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from airflow_abs.spark.proof.explained import split_list

Keys = tuple[str, ...]
"""The expressions, in order, whose hash says in which subtask a row is."""

_NORMALISED = re.compile(r"knownfloatingpointnormalized\(normalizenanandzero\(([^()]*(?:\([^()]*\))?[^()]*)\)\)")
_HASH = re.compile(r"hashpartitioning\((.*), (\d+)\)", re.DOTALL)
_CAST = re.compile(r"cast\(([^\s()]+#\d+L?) as ([a-z]+(?:\([\d,]+\))?)\)")
_NUMBER = re.compile(r"(?<=\w)#\d+L?")


class Spread(Enum):
    """Who has the rows."""

    DIVIDED = auto()  # each row is in exactly one subtask
    REPLICATED = auto()  # every subtask has all of them
    EMPTY = auto()  # there is none


@dataclass(frozen=True, slots=True)
class Need:
    """An exchange that Spark would make here. `keys` are None unless it is one by hash.

    `arguments` are Spark's words for it. `asked` is False for one that the author wrote.
    """

    keys: Keys | None
    arguments: str
    asked: bool = True
    broadcast: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Partitions:
    """Spark partitions that the author asks for with `call`: `number` of them (0: however many), each with all rows of
    its `keys`. `kept`: those that a subtask makes of its own rows are such partitions of all rows."""

    call: str
    number: int
    keys: Keys
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """`together` are all ways in which divided rows are known to be distributed; none of them: anyhow.

    `inputs` are the markers below. `need` is an exchange right below, that the next operator asks for. `partitions` are
    those in which the author last put divided rows. `portions` are functions below that get divided rows in whichever
    portions there are.
    """

    spread: Spread
    together: frozenset[Keys] = frozenset()
    inputs: frozenset[str] = frozenset()
    need: Need | None = None
    partitions: frozenset[Partitions] = frozenset()
    portions: frozenset[str] = frozenset()

    @property
    def divided(self) -> bool:
        return self.spread is Spread.DIVIDED


def keys_of_exchange(arguments: str) -> Keys | None:
    """The hash keys of ``hashpartitioning(a#1, b#2, 200), ...``; None for another kind of exchange."""
    found = _HASH.match(arguments)
    return plain_keys(split_list(found[1])) if found else None


def plain_keys(expressions: Sequence[str]) -> Keys:
    """Without what Spark puts around keys that are NULL or floating: both depend on the key alone, and tell keys apart.

    A null-safe comparison of ``k`` is one of ``coalesce(k, 0), isnull(k)``.
    """
    plain: list[str] = []
    for expression in expressions:
        text = _NORMALISED.sub(r"\1", expression)
        if plain and text.startswith("isnull(") and plain[-1].startswith(f"coalesce({text[7:-1]}, "):
            plain[-1] = text[7:-1]
        else:
            plain.append(text)
    return tuple(plain)


def groups_are_together(together: frozenset[Keys], needed: Keys) -> bool:
    """True if equal values of `needed` always mean one subtask: its keys are among them, as they are or cast."""
    return any(all(key in needed or _uncast(key)[0] in needed for key in keys) for keys in together)


def pairs_are_together(left: frozenset[Keys], right: frozenset[Keys], on: Sequence[tuple[str, str]]) -> bool:
    """True if two rows that are equal in `on` are always in one subtask: both sides were hashed by such pairs."""
    return any(
        len(one) == len(other) and all(_compared(*pair, on) for pair in zip(one, other, strict=True))
        for one in left
        for other in right
    )


def follow_names(together: frozenset[Keys], outputs: Sequence[str]) -> frozenset[Keys]:
    """Add the keys under the names that a projection gives them (``region#3 AS place#9``)."""
    names: dict[str, list[str]] = {}
    for output in outputs:
        value, found, name = output.rpartition(" AS ")
        if found:
            names.setdefault(plain_keys([value])[0], []).append(name)
    known = set(together)
    for keys in together:
        for position, key in enumerate(keys):
            known |= {(*keys[:position], name, *keys[position + 1 :]) for name in names.get(key, ())}
    return frozenset(known)


def for_people(text: str) -> str:
    """Spark's text without the numbers of attributes."""
    return _NUMBER.sub("", text)


def _compared(left: str, right: str, on: Sequence[tuple[str, str]]) -> bool:
    """True if a join compares these two keys, or what both are casts of to one type."""
    if (left, right) in on:
        return True
    (one, as_one), (other, as_other) = _uncast(left), _uncast(right)
    return as_one == as_other and (one, other) in on


def _uncast(key: str) -> tuple[str, str]:
    """Attribute and type of ``cast(k#1 as bigint)``; the key itself if it is no such cast."""
    found = _CAST.fullmatch(key)
    return (found[1], found[2]) if found else (key, "")
