"""Why a transform cannot run in parts, operator by operator: what it needs, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_abs.spark.proof.explained import Operator, split_list
from airflow_abs.spark.proof.rows import Keys, Partitions, Rows, for_people, plain_keys

_OWN_VERTEX = "make it a vertex of its own"
_AGGREGATES = ("aggregate", "deduplicate", "set_op", "summary", "describe", "freq_items", "corr", "cov", "sql")
_OVER_PARTITIONS = ("map_partitions", "project", "with_columns", "sql", "lateral_join")
_CAST = re.compile(r"cast\((`?\w+`?) as [a-z]+(?:\([\d,]+\))?\)")


@dataclass
class Refusal(Exception):  # noqa: N818 - it becomes a JobGraphError, with the vertex and the line
    """One reason against running a transform in parts.

    `what` is the operator in the author's words, `why` what it needs, `remedy` what to write. `relations` are kinds of
    Connect relations that such an operator comes from; `inputs` the markers of the inputs below it. `partial`: a result
    for each part may be what is wanted; `right_alone`: one subtask with all rows would be right.
    """

    what: str
    why: str
    remedy: str
    relations: tuple[str, ...] = ()
    inputs: frozenset[str] = frozenset()
    partial: bool = True
    right_alone: bool = True

    def __str__(self) -> str:
        return f"{self.what} {self.why}"


def group(operator: Operator, rows: Rows) -> Refusal:
    """An aggregate or a window whose groups may have rows in several subtasks."""
    window = "Window" in operator.name
    what, relations = ("a window", ("with_columns", "project", "sql")) if window else _grouping(operator)
    keys = rows.need.keys if rows.need else None
    if not keys:
        needs = "needs all rows in one subtask"
        remedy = f"{_OWN_VERTEX} with VertexOptions(parallelism=1)" + (
            " (and partitionBy() the window if it may be cut)" if window else ""
        )
        return Refusal(what, needs, remedy, relations, rows.inputs)
    remedy = f"{_edge_by(keys)}, or {_OWN_VERTEX} whose input is hashed so"
    return Refusal(what, _needs_together(keys), remedy, relations, rows.inputs)


def whole_groups(operator: Operator, rows: Rows) -> Refusal:
    """Any aggregate or window of rows whose distribution is not that of the edges."""
    what, relations = (
        ("a window", ("with_columns", "project", "sql")) if "Window" in operator.name else _grouping(operator)
    )
    return Refusal(
        what, "needs all rows of a group in one subtask", f"{_OWN_VERTEX} after this one", relations, rows.inputs
    )


def function_over_partitions(function: str, rows: Rows) -> Refusal:
    return Refusal(
        f"a function over partitions ({function})",
        "may look at several rows of its partition",
        f"{_OWN_VERTEX} after this one",
        _OVER_PARTITIONS,
        rows.inputs,
    )


def _needs_together(keys: Keys) -> str:
    return f"needs all rows with the same value of {for_people(', '.join(keys))} in one subtask"


def _edge_by(keys: Keys) -> str:
    columns = [_CAST.sub(r"\1", for_people(key)) for key in keys]
    if not all(re.fullmatch(r"\w+", column) for column in columns):
        return f"give the vertex before a column with the value of {for_people(', '.join(keys))}, and hash() by it"
    return f"read the input with hash({', '.join(repr(column) for column in columns)})"


def _grouping(operator: Operator) -> tuple[str, tuple[str, ...]]:
    if operator.name.startswith("FlatMap"):
        return "a function of groups (applyInPandas, cogroup)", ("group_map", "co_group_map")
    if "Keys" in operator.details and not split_list(operator.detail("Functions")):
        return "distinct()/dropDuplicates()", ("deduplicate", "set_op", "aggregate", "sql")
    return "an aggregate (groupBy, agg, count, ...)", _AGGREGATES


def sort(operator: Operator, rows: Rows) -> Refusal:
    columns = for_people(", ".join(split_list(split_list(operator.detail("Arguments"))[0])))
    return Refusal(
        f"a sort of all rows (orderBy {columns})",
        "needs all rows in one subtask",
        "drop it, or use sortWithinPartitions() if only the order inside of files matters, "
        f"or {_OWN_VERTEX} with VertexOptions(parallelism=1)",
        ("sort", "sql"),
        rows.inputs,
    )


def limit(operator: Operator, rows: Rows) -> Refusal:
    if rows.divided:
        return Refusal(
            "limit()/offset()",
            "needs all rows in one subtask: each would take this many of its own",
            f"{_OWN_VERTEX} with VertexOptions(parallelism=1)",
            ("limit", "offset", "tail", "sql"),
            rows.inputs,
        )
    return Refusal(
        "limit()/offset() of rows that every subtask has",
        "may take other rows in each subtask",
        f"{_OWN_VERTEX} with VertexOptions(parallelism=1), and read that with broadcast()",
        ("limit", "offset", "tail", "sql"),
        rows.inputs,
    )


def sample(rows: Rows) -> Refusal:
    return Refusal(
        "sample()",
        "picks other rows when they are distributed differently, and in every run",
        "filter by a hash of a key, for example where('pmod(xxhash64(order_id), 100) < 10')",
        ("sample", "sample_by", "sql"),
        rows.inputs,
        right_alone=False,  # what is lost of it would be recomputed as other rows
    )


def join(operator: Operator, left: Rows, right: Rows) -> Refusal:
    pairs = zip(*(plain_keys(split_list(operator.detail(f"{side} keys"))) for side in ("Left", "Right")), strict=False)
    on = " and ".join(for_people(f"{one} = {other}") for one, other in pairs)
    inputs = left.inputs | right.inputs
    # Spark 4.2.1 plans a NOT IN so, with all rows of the one side at hand; 4.2.0 as a join without keys.
    if not on or operator.name.startswith("BroadcastHashJoin LeftAnti"):
        return Refusal(
            "a join that compares no equal columns (cross join, inequality, NOT IN)",
            "needs every row of the one side with every row of the other",
            "read the smaller side with broadcast() (and write NOT EXISTS or a left anti join instead of NOT IN)",
            ("join", "sql", "lateral_join", "as_of_join"),
            inputs,
        )
    return Refusal(
        f"a join on {on}",
        "needs the rows that match in one subtask",
        "read both sides with hash() of these columns, in the same order and with the same types, or the smaller one "
        "with broadcast()",
        ("join", "sql", "set_op", "lateral_join", "as_of_join"),
        inputs,
    )


def outer_join(operator: Operator, kind: str, left: Rows, right: Rows) -> Refusal:
    words = {"LeftOuter": "left", "RightOuter": "right", "FullOuter": "full outer", "LeftSemi": "left semi"} | {
        "LeftAnti": "left anti",
        "ExistenceJoin": "EXISTS",
    }
    return Refusal(
        f"a {words.get(kind, kind)} join that keeps rows of a side that every subtask has",
        "would give those rows once for each subtask",
        "swap the sides so that the join keeps the divided side, or read both sides with hash() of the join's columns",
        ("join", "sql"),
        left.inputs | right.inputs,
        partial=False,
    )


def cogroup_with_broadcast(operator: Operator, left: Rows, right: Rows) -> Refusal:
    return Refusal(
        "cogroup()",
        "would give the groups of a broadcast input once for each subtask",
        "read both sides with hash() of the group's columns",
        ("co_group_map",),
        left.inputs | right.inputs,
        partial=False,
    )


def union(children: Sequence[Rows]) -> Refusal:
    return Refusal(
        "a union of divided rows with rows that every subtask has (a broadcast input, local rows)",
        "would give the latter once for each subtask",
        "read that input with rebalance() or hash(), or make the rows a source",
        ("set_op", "sql"),
        frozenset().union(*(rows.inputs for rows in children)),
        partial=False,
    )


def replicated_output(rows: Rows) -> Refusal:
    return Refusal(
        "its output",
        "holds rows that every subtask has (a broadcast input, local rows), and would hold them once for each subtask",
        "join them to a divided input, or set VertexOptions(parallelism=1)",
        (),
        rows.inputs,
        partial=False,
    )


def subquery(operator: Operator, rows: Rows) -> Refusal:
    return Refusal(
        "a subquery that is one value for all rows",
        "needs all rows in one subtask",
        "make the value a vertex of its own with VertexOptions(parallelism=1), and read that with broadcast()",
        ("sql", "filter", "project", "with_columns"),
        rows.inputs,
    )


def exchange(operator: Operator, rows: Rows) -> Refusal:
    """An exchange below an operator that the table does not expect above one."""
    arguments = rows.need.arguments if rows.need else ""
    return Refusal(
        f"Spark's operator {operator.name}",
        f"stands above an exchange of rows between subtasks ({for_people(arguments)})",
        f"hash the inputs by what it compares, or {_OWN_VERTEX} with VertexOptions(parallelism=1)",
        (),
        rows.inputs,
    )


def own_exchange(operator: Operator, rows: Rows) -> Refusal:
    arguments = for_people(operator.detail("Arguments").split(", [plan_id")[0])
    return Refusal(
        f"DISTRIBUTE BY, CLUSTER BY or a repartition ({arguments})",
        "hides from the proof whether what follows needs rows of other subtasks",
        "drop it: the edges say how rows are distributed",
        ("sql", "repartition", "repartition_by_expression"),
        rows.inputs,
    )


def partitions(function: str, asked: Partitions, rows: Rows) -> Refusal:
    """A function over partitions, behind such as the author asks for and no subtask can make of its own rows."""
    number, keys = asked.number, ", ".join(for_people(key) for key in asked.keys)
    call = asked.call if "(" in asked.call else f"{asked.call}({', '.join(filter(None, [str(number or ''), keys]))})"
    otherwise = f"drop {call} if the function treats its rows one by one"
    if number == 1:
        why, remedy = (
            "needs all rows in one subtask",
            f"{_OWN_VERTEX} with VertexOptions(parallelism=1), or {otherwise}",
        )
    elif number or asked.call != "repartition":
        many = f"{number} partitions" if number else "partitions"
        why = f"would see {many} of each subtask's rows, where plain Spark makes {many} of all rows"
        remedy = f"{otherwise}, or write repartition() with the columns alone, whose rows it needs together"
    elif keys:
        why, remedy = _needs_together(asked.keys), f"{_edge_by(asked.keys)}, or {otherwise}"
    else:
        why = "needs all rows with the same value of a computed key in one subtask"
        remedy = f"give the vertex before a column with that value, hash() and repartition() by it, or {otherwise}"
    return Refusal(f"{function} after {call}", why, remedy, _OVER_PARTITIONS, rows.inputs)


def hinted_partitions(hint: str) -> Refusal:
    return Refusal(
        f"a function over partitions beside the hint {hint}",
        "would see partitions of each subtask's rows, which the proof cannot see",
        "drop the hint, or write repartition() or coalesce() of the DataFrame in its place",
        ("sql",),
    )


def barrier(function: str, rows: Rows) -> Refusal:
    return Refusal(
        f"{function} with barrier=True",
        "needs all rows in one subtask: its tasks communicate",
        f"drop barrier=True, or {_OWN_VERTEX} with VertexOptions(parallelism=1)",
        _OVER_PARTITIONS,
        rows.inputs,
    )


def recursion() -> Refusal:
    return Refusal(
        "a recursive query over an input",
        "needs all rows in one subtask",
        f"{_OWN_VERTEX} with VertexOptions(parallelism=1)",
        ("sql",),
    )


def scan(operator: Operator) -> Refusal:
    return Refusal(
        f"a read of files or tables ({operator.name.strip()})",
        "would read all of it in every subtask, without being measured or recomputed",
        "give the vertex source=Files(...), or make the read a vertex of its own and take it with broadcast()",
        ("read", "sql"),
        partial=False,
    )


def cache() -> Refusal:
    return Refusal(
        "cache()/persist()",
        "keeps rows in the session of plan, which no subtask has",
        "drop it: a vertex of its own keeps what several read",
        partial=False,
    )


def numbered(rows: Rows) -> Refusal:
    return Refusal(
        "a running number over all rows (pandas API on Spark)",
        "needs all rows in one subtask",
        "use a key of the data instead",
        (),
        rows.inputs,
    )


def unknown(operator: Operator) -> Refusal:
    return Refusal(
        f"Spark's operator {operator.name!r}",
        "is not known to be safe in parts",
        f"write the step without it, or {_OWN_VERTEX} with VertexOptions(parallelism=1)",
    )


def untried(operator: Operator, release: str) -> Refusal:
    return Refusal(
        f"Spark's operator {operator.name.strip()!r}",
        f"was not tried on Spark {release}",
        f"run the server on Spark 4.2, write the step without it, or {_OWN_VERTEX} with VertexOptions(parallelism=1)",
    )
