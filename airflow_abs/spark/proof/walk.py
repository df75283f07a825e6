"""Walks a physical plan from its leaves up, and follows what each operator makes of rows that are distributed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from airflow_abs.spark.proof import refusals
from airflow_abs.spark.proof.explained import Operator, PhysicalPlan, split_list
from airflow_abs.spark.proof.joins import join_rows, name_outer_keys
from airflow_abs.spark.proof.markers import NO_FILES, Marker, find_marker
from airflow_abs.spark.proof.operators import Rule, rule_of
from airflow_abs.spark.proof.partitions import ROW_NUMBER, find_partitions, function_over_partitions, is_barrier
from airflow_abs.spark.proof.rows import (
    Keys,
    Need,
    Rows,
    Spread,
    follow_names,
    groups_are_together,
    keys_of_exchange,
    pairs_are_together,
    plain_keys,
)

_ONLY_A_LITERAL = re.compile(r"\[[^#]* AS \w+#\d+L?\]")
# What a recursive query may hold that needs no input of the vertex; Spark shows its logical plan.
_IN_RECURSION = frozenset({"Project", "Filter", "OneRowRelation", "UnionLoopRef", "LocalRelation", "Union", "Range"})
_SPARKS_OWN = "ENSURE_REQUIREMENTS"
_ONE_BY_ONE = frozenset({"Project", "Filter", "Sort"})
_OUTPUT_IS_INPUT = frozenset({"Filter", "Exchange", "Sort", "CollectMetrics", "Coalesce"})


def follow_rows(plan: PhysicalPlan, markers: Mapping[str, Marker], *, other_edges: bool = False) -> Rows:
    """What is known of the rows that a plan returns, if each subtask runs it on its own part.

    With `other_edges` the markers are distributed otherwise than when Spark made the plan. That it put no exchange
    below an operator then says nothing: whatever looks at several divided rows is refused, joins with rows that every
    subtask has are not, and an exchange that Spark was told to make is none that anything needs.

    Raises:
        Refusal: some operator needs rows that another subtask has, or would give the same rows in every subtask.
    """
    walk = _Walk(markers, _last_exchange(plan.root), other_edges)
    for subquery in plan.subqueries:
        if walk.visit(subquery).divided:
            raise refusals.subquery(subquery, walk.visit(subquery))
    return _settled(plan.root, walk.visit(plan.root))


@dataclass(slots=True)
class _Walk:
    """`last_exchange` is the number of the author's exchange on which nothing depends, if there is one; `other_edges`
    as in `follow_rows`."""

    markers: Mapping[str, Marker]
    last_exchange: int | None = None
    other_edges: bool = False

    def visit(self, root: Operator) -> Rows:
        """Rows at the top of a tree; iterative, because plans can be deeper than Python's stack."""
        done: dict[int, Rows] = {}
        for operator in reversed(_parents_first(root)):
            rule = rule_of(operator.name)
            children = [done[child.number] for child in operator.children if child.number in done]
            done[operator.number] = self.with_partitions(operator, _RULES[rule](self, operator, children), children)
        return done[root.number]

    def with_partitions(self, operator: Operator, rows: Rows, children: list[Rows]) -> Rows:
        """The rows with what is known of Spark's partitions.

        Those that the author asks for count until he asks for others, even if Spark moves rows in between: then he may
        as well drop them.

        Raises:
            Refusal: a function sees other partitions than in plain Spark.
        """
        lie_in = frozenset().union(*(child.partitions for child in children))
        portions = frozenset().union(*(child.portions for child in children))
        function = function_over_partitions(operator, self.markers)
        if function is not None and self.other_edges:
            raise refusals.function_over_partitions(function, rows)
        if function is not None and rows.divided:
            if is_barrier(operator):
                raise refusals.barrier(function, rows)
            broken = [each for each in sorted(lie_in) if not each.kept]
            if broken:
                raise refusals.partitions(function, broken[0], rows)
            portions |= {function} if not lie_in and function != ROW_NUMBER else frozenset()
        asked = find_partitions(operator)
        if asked is not None and rows.divided:
            kept = not asked.number and bool(asked.keys) and groups_are_together(rows.together, asked.keys)
            merged = lie_in if "coalesce" in asked.call else frozenset()
            lie_in = merged | {replace(asked, kept=kept)}
        return replace(rows, partitions=lie_in, portions=portions)

    def row_by_row(self, operator: Operator, children: list[Rows]) -> Rows:
        (rows,) = children
        rows = _settled(operator.children[0], rows)
        outputs = split_list(operator.detail("Output")) if operator.name != "Expand" else _same_in_all_copies(operator)
        return replace(rows, together=follow_names(rows.together, outputs))

    def grouped(self, operator: Operator, children: list[Rows]) -> Rows:
        """All rows of a group meet here: right if Spark needs no exchange for it, or if the exchange would move nothing
        from one subtask to another."""
        (rows,) = children
        if self.other_edges and rows.divided:
            raise refusals.whole_groups(operator, rows)
        if rows.need is not None:
            keys = rows.need.keys
            if keys is None or not groups_are_together(rows.together, keys):
                raise refusals.group(operator, rows)
        spread = Spread.REPLICATED if rows.spread is Spread.EMPTY and not split_list(_keys(operator)) else rows.spread
        together = follow_names(rows.together, split_list(operator.detail("Results")))
        return replace(rows, spread=spread, together=together, need=None)

    def map_in_pandas(self, operator: Operator, children: list[Rows]) -> Rows:
        found = find_marker(operator, self.markers)
        if found is None:
            return self.row_by_row(operator, children)
        marker, keys = found
        if marker.replicated:
            return Rows(Spread.REPLICATED, inputs=frozenset({marker.name}))
        return Rows(Spread.DIVIDED, frozenset({keys} if keys else ()), frozenset({marker.name}))

    def local_rows(self, operator: Operator, _children: list[Rows]) -> Rows:
        return Rows(Spread.EMPTY if operator.detail("Arguments").startswith("<empty>") else Spread.REPLICATED)

    def recursion(self, operator: Operator, _children: list[Rows]) -> Rows:
        if any(below.name not in _IN_RECURSION for below in _parents_first(operator)[1:]):
            raise refusals.recursion()
        return Rows(Spread.REPLICATED)

    def exchange(self, operator: Operator, children: list[Rows]) -> Rows:
        (rows,) = children
        rows = _settled(operator.children[0], rows)
        if not rows.divided:
            return rows  # all of them are here: they may be moved about inside the subtask
        arguments = operator.detail("Arguments")
        keys = keys_of_exchange(arguments)
        asked = _SPARKS_OWN in arguments
        if self.other_edges and not asked:
            return rows
        if not asked and keys is not None and groups_are_together(rows.together, keys):
            return rows  # the edge's own, or an author's that moves nothing between subtasks
        if operator.number == self.last_exchange:
            return rows
        if not asked:
            raise refusals.own_exchange(operator, rows)
        return replace(rows, need=Need(keys, arguments))

    def broadcast(self, operator: Operator, children: list[Rows]) -> Rows:
        (rows,) = children
        rows = _settled(operator.children[0], rows)
        return replace(rows, need=Need(None, "broadcast", broadcast=True)) if rows.divided else rows

    def join(self, operator: Operator, children: list[Rows]) -> Rows:
        left, right = children
        rows = join_rows(operator, left, right)
        return replace(rows, together=name_outer_keys(operator, rows, left, right))

    def cogroup(self, operator: Operator, children: list[Rows]) -> Rows:
        left, right = children
        if left.divided != right.divided:
            raise refusals.cogroup_with_broadcast(operator, left, right)
        if self.other_edges and left.divided:
            raise refusals.whole_groups(operator, left)
        if left.need or right.need:
            pairs = [(rows.need.keys if rows.need else None) for rows in children]
            needed = pairs[0] or pairs[1] or ()
            other = pairs[1] or needed
            together = pairs_are_together(left.together, right.together, list(zip(needed, other, strict=False)))
            if None in pairs or not together:
                raise refusals.group(operator, left if left.need else right)
        return Rows(left.spread, inputs=left.inputs | right.inputs)

    def union(self, operator: Operator, children: list[Rows]) -> Rows:
        children = [_settled(child, rows) for child, rows in zip(operator.children, children, strict=True)]
        inputs = frozenset().union(*(rows.inputs for rows in children))
        filled = [rows.spread for rows in children if rows.spread is not Spread.EMPTY]
        if Spread.DIVIDED in filled and Spread.REPLICATED in filled:
            raise refusals.union(children)
        spread = filled[0] if filled else Spread.EMPTY
        return Rows(spread, _union_keys(operator, children), inputs)

    def sort(self, operator: Operator, children: list[Rows]) -> Rows:
        """A global sort has an exchange by ranges right below it; a join's or a window's leaves the need to those."""
        (rows,) = children
        if rows.need is not None and "rangepartitioning" in rows.need.arguments:
            raise refusals.sort(operator, rows)
        return rows

    def limit(self, operator: Operator, children: list[Rows]) -> Rows:
        (rows,) = children
        if rows.spread is Spread.EMPTY:
            return rows
        child = operator.children[0]
        exists = operator.detail("Arguments") == "1" and _ONLY_A_LITERAL.fullmatch(child.detail("Output"))
        if rows.spread is Spread.REPLICATED and (exists or rule_of(child.name) is Rule.LIMIT):
            return rows  # whether there is a row at all: the same in every subtask, whichever row it is
        raise refusals.limit(operator, rows)

    def sample(self, operator: Operator, children: list[Rows]) -> Rows:
        raise refusals.sample(children[0])

    def scan(self, operator: Operator, _children: list[Rows]) -> Rows:
        if operator.detail("Location") != NO_FILES:
            raise refusals.scan(operator)
        return Rows(Spread.DIVIDED, inputs=frozenset(name for name, each in self.markers.items() if each.format))

    def cache(self, _operator: Operator, _children: list[Rows]) -> Rows:
        raise refusals.cache()

    def numbered(self, _operator: Operator, children: list[Rows]) -> Rows:
        raise refusals.numbered(children[0])

    def refused(self, operator: Operator, _children: list[Rows]) -> Rows:
        raise refusals.unknown(operator)


_RULES: Mapping[Rule, Callable[[_Walk, Operator, list[Rows]], Rows]] = {
    Rule.ROW_BY_ROW: _Walk.row_by_row,
    Rule.GROUPED: _Walk.grouped,
    Rule.MAP_IN_PANDAS: _Walk.map_in_pandas,
    Rule.LOCAL_ROWS: _Walk.local_rows,
    Rule.RECURSION: _Walk.recursion,
    Rule.EXCHANGE: _Walk.exchange,
    Rule.BROADCAST: _Walk.broadcast,
    Rule.JOIN: _Walk.join,
    Rule.COGROUP: _Walk.cogroup,
    Rule.UNION: _Walk.union,
    Rule.SORT: _Walk.sort,
    Rule.LIMIT: _Walk.limit,
    Rule.SAMPLE: _Walk.sample,
    Rule.SCAN: _Walk.scan,
    Rule.CACHE: _Walk.cache,
    Rule.NUMBERED: _Walk.numbered,
    Rule.REFUSED: _Walk.refused,
    Rule.WRAPPER: _Walk.refused,
}


def _parents_first(root: Operator) -> list[Operator]:
    """All operators of a tree; what is below a recursion belongs to it and is not visited by itself."""
    waiting, found = [root], []
    while waiting:
        operator = waiting.pop()
        found.append(operator)
        if operator is root or rule_of(operator.name) is not Rule.RECURSION:
            waiting.extend(operator.children)
    return found


def _last_exchange(root: Operator) -> int | None:
    """An exchange above which each row is looked at by itself: DISTRIBUTE BY at the end, say.

    None if Spark itself wants it: a sort of all rows is no order of each subtask's."""
    while root.name in _ONE_BY_ONE and len(root.children) == 1:
        (root,) = root.children
    wanted = _SPARKS_OWN in root.detail("Arguments")
    return root.number if root.name == "Exchange" and not wanted else None


def _same_in_all_copies(operator: Operator) -> list[str]:
    """What the copies of a row that grouping sets make have in common, as ``value AS name``."""
    arguments = split_list(f"[{operator.detail('Arguments')}]")
    if len(arguments) != 2:
        return []
    copies, names = [split_list(copy) for copy in split_list(arguments[0])], split_list(arguments[1])
    if any(len(copy) != len(names) for copy in copies):
        return []
    values = [{copy[place] for copy in copies} for place in range(len(names))]
    return [f"{value} AS {name}" for (value, *others), name in zip(values, names, strict=True) if not others]


def _settled(operator: Operator, rows: Rows) -> Rows:
    """Rows below which no exchange is wanting."""
    if rows.need is not None:
        raise refusals.exchange(operator, rows)
    return rows


def _keys(operator: Operator) -> str:
    """The grouping of an aggregate; anything else counts as grouped."""
    return operator.detail("Keys") if "Keys" in operator.details else "[-]"


def _union_keys(operator: Operator, children: list[Rows]) -> frozenset[Keys]:
    """Keys that stand at the same places in all inputs of a union; its columns are called as in the first."""
    outputs = [output_of(child) for child in operator.children]
    if not all(rows.divided for rows in children) or not outputs[0] or len({len(entry) for entry in outputs}) != 1:
        return frozenset()

    def places(rows: Rows, output: list[str]) -> set[tuple[int, ...]]:
        return {
            tuple(output.index(key) for key in keys) for keys in rows.together if all(key in output for key in keys)
        }

    shared = set.intersection(*(places(rows, output) for rows, output in zip(children, outputs, strict=True)))
    return frozenset(tuple(outputs[0][place] for place in keys) for keys in shared)


def output_of(operator: Operator) -> list[str]:
    """An operator's output attributes, as far as its details tell; else nothing."""
    heading = "Input" if operator.name in _OUTPUT_IS_INPUT else "Results" if "Results" in operator.details else "Output"
    columns = [column.rpartition(" AS ")[2] for column in split_list(operator.detail(heading))]
    return list(plain_keys(columns))
