"""Values that a transform does not take from its rows: random ones, row numbers, the time.

Written for the whole table, ``uuid()`` gives each row its own value and ``current_timestamp()`` all rows the same one.
Run in parts, the parts would repeat each other's random values, because the client (or `fix_values`) wrote one seed
into the plan, and each part would have a time of its own. So `plan` fixes seeds and the time in the template, once for
the run, and every subtask mixes its own index into the seeds: a retry, or a recomputation, gives the same values.

The plan holds them as unresolved functions (DataFrame API) or in SQL text (queries, ``expr``, string conditions).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.non_repeatable import Repeatability, find_non_repeatable
from airflow_abs.spark.relations import Relation, rename_columns
from airflow_abs.spark.sql_calls import rewrite_calls, rewrite_keywords
from airflow_abs.spark.template import may_shuffle, messages_of

_SEEDED = {"rand": 0, "randn": 0, "random": 0, "uuid": 0, "shuffle": 1, "randstr": 1, "uniform": 2}
"""Random functions: how many arguments stand before the seed."""
_ROW_NUMBER = "monotonically_increasing_id"
_TIMES = ("current_timestamp", "now", "current_date", "curdate", "localtimestamp", "unix_timestamp")
_BARE_TIMES = ("current_timestamp", "current_date")
"""These are functions without parentheses, too."""

_INTEGER = re.compile(r"\d+")
_SUBTASK_BIT, _PIECE_BIT = 53, 47
"""Spark's row number has the Spark partition above bit 33; 2^14 of them remain, 64 pieces, 1,024 subtasks."""
_MOST_SUBTASKS, _MOST_PIECES = 1024, 64


def is_repeatable(relation: Relation) -> bool:
    """Whether the same input gives the same values again.

    Random values and row numbers follow the order of rows, which a shuffle changes; a Python function says itself
    whether it is deterministic. `relation` has its times fixed.
    """
    kinds = {value.kind for value in find_non_repeatable(relation)}
    if kinds & {Repeatability.PYTHON, Repeatability.TIME}:
        return False
    return not (kinds & {Repeatability.RANDOM, Repeatability.ROW_NUMBER} and may_shuffle(relation))


def fix_values(relation: Relation, columns: Sequence[str], now: datetime, new_seed: Callable[[], int]) -> Relation:
    """The plan with the run's time for every clock, and a seed for every random function that has none.

    Args:
        relation: as the transform built it; unchanged.
        columns: names of its output, which unnamed expressions would change.
        now: an aware time.
        new_seed: 63 bits, new at every call.
    """
    fixed = protos().Relation()
    fixed.CopyFrom(relation)
    _replace_functions(fixed, lambda function: _time_expression(function, now))

    def rewrite(name: str, arguments: Sequence[str]) -> str | None:
        if name in _SEEDED:
            missing = len(arguments) == _SEEDED[name]
            return f"{name}({', '.join([*arguments, f'{new_seed()}L'])})" if missing else None
        return None if arguments and name == "unix_timestamp" else _time_text(name, now)

    bare = {name for name in _BARE_TIMES if not _may_be_a_column(relation, name)}
    for owner, field in _texts(fixed):
        text = rewrite_calls(getattr(owner, field), {*_SEEDED, *_TIMES}, rewrite)
        setattr(owner, field, rewrite_keywords(text, bare, rewrite))
    return relation if fixed == relation else rename_columns(fixed, columns)


def mix_in_subtask(relation: Relation, columns: Sequence[str], index: int, piece: int = 0) -> Relation:
    """The plan with random values and row numbers of its own for this subtask (and piece of it).

    Subtask 0 keeps what the plan says, so that a day of one subtask has the values of one Spark job.

    Raises:
        ValueError: more subtasks or pieces than row numbers have room for.
    """
    if not index and not piece:
        return relation
    mixed = protos().Relation()
    mixed.CopyFrom(relation)
    _replace_functions(mixed, lambda function: _own_expression(function, index, piece))

    def rewrite(name: str, arguments: Sequence[str]) -> str | None:
        if name == _ROW_NUMBER:
            return f"({_ROW_NUMBER}() + {_first_row_number(index, piece)}L)"
        seed = arguments[-1].rstrip("lL") if len(arguments) > _SEEDED[name] else ""
        if not _INTEGER.fullmatch(seed):
            return None
        return f"{name}({', '.join([*arguments[:-1], f'{_own_seed(int(seed), index, piece)}L'])})"

    for owner, field in _texts(mixed):
        setattr(owner, field, rewrite_calls(getattr(owner, field), {*_SEEDED, _ROW_NUMBER}, rewrite))
    return relation if mixed == relation else rename_columns(mixed, columns)


def _own_expression(function: Any, index: int, piece: int) -> Any:
    name = function.function_name.lower()
    if name == _ROW_NUMBER:
        first = protos().Expression(literal=protos().Expression.Literal(long=_first_row_number(index, piece)))
        own = protos().Expression(unresolved_function=function)
        return _call("+", own, first)
    if len(function.arguments) <= _SEEDED.get(name, len(function.arguments)):
        return None
    literal = function.arguments[-1].literal
    kind = literal.WhichOneof("literal_type")
    if kind not in ("integer", "long"):
        return None
    seed = protos().Expression(
        literal=protos().Expression.Literal(long=_own_seed(getattr(literal, kind), index, piece))
    )
    return _call(function.function_name, *function.arguments[:-1], seed)


def _time_expression(function: Any, now: datetime) -> Any:
    name = function.function_name.lower()
    if name not in _TIMES or (name == "unix_timestamp" and function.arguments):
        return None
    return protos().Expression(expression_string=protos().Expression.ExpressionString(expression=_time_text(name, now)))


def _time_text(name: str, now: datetime) -> str:
    if name == "unix_timestamp":
        return f"{int(now.timestamp())}L"
    instant = f"TIMESTAMP_LTZ '{now.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"
    if name in ("current_date", "curdate"):
        return f"CAST({instant} AS DATE)"
    return f"CAST({instant} AS TIMESTAMP_NTZ)" if name == "localtimestamp" else instant


def _call(name: str, *arguments: Any) -> Any:
    function = protos().Expression.UnresolvedFunction(function_name=name, arguments=arguments)
    return protos().Expression(unresolved_function=function)


def _own_seed(seed: int, index: int, piece: int) -> int:
    return int.from_bytes(sha256(f"{seed}/{index}/{piece}".encode()).digest()[:8], "big") >> 1


def _first_row_number(index: int, piece: int) -> int:
    if index >= _MOST_SUBTASKS or piece >= _MOST_PIECES:
        raise ValueError(
            f"monotonically_increasing_id() has room for {_MOST_SUBTASKS} subtasks of {_MOST_PIECES} pieces, and this "
            f"is subtask {index}, piece {piece}; use uuid(), or lower max_parallelism"
        )
    return index << _SUBTASK_BIT | piece << _PIECE_BIT


def _replace_functions(relation: Relation, replace: Callable[[Any], Any]) -> None:
    """Replace in place; what a replacement holds itself is not looked at again."""
    expressions = [
        message
        for message in messages_of(relation)
        if message.DESCRIPTOR.name == "Expression" and message.WhichOneof("expr_type") == "unresolved_function"
    ]
    for expression in reversed(expressions):  # inner ones first
        replaced = replace(expression.unresolved_function)
        if replaced is not None:
            expression.CopyFrom(replaced)


def _may_be_a_column(relation: Relation, name: str) -> bool:
    """Whether the plan speaks of the name outside of SQL text (schemas, aliases), or gives it to a column there."""
    for message in messages_of(relation):
        for descriptor, value in message.ListFields():
            if descriptor.name in ("query", "expression"):
                if re.search(rf"\bas\s+`?{name}\b", str(value), re.IGNORECASE):
                    return True
            elif (
                descriptor.name != "function_name"
                and descriptor.type
                in (
                    descriptor.TYPE_STRING,
                    descriptor.TYPE_BYTES,
                )
                and name in str(value).lower()
            ):
                return True
    return False


def _texts(relation: Relation) -> Iterator[tuple[Any, str]]:
    """Messages that hold SQL, with the name of the field."""
    for message in list(messages_of(relation)):
        match message.DESCRIPTOR.full_name.removeprefix("spark.connect."):
            case "SQL":
                yield message, "query"
            case "Expression.ExpressionString":
                yield message, "expression"
