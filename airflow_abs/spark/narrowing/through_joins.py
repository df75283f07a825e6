"""Partial aggregates of rows that their consumer joins before it aggregates them.

Eager aggregation (Yan and Larson, Eager Aggregation and Lazy Aggregation, 1995): rows that are alike in all columns
that a join, a filter or a group looks at are kept, dropped and repeated together. So the producer may group by these
columns, and what passes the join is one row for each group, with its partial aggregates, and with the number of its
rows where rows are counted. It holds for the side of a join whose rows the join never makes up: any side of an inner or
cross join, the outer side of an outer join, the left side of a semi or an anti join.

Which columns are looked at is asked of Spark's planner: those of the input that it scans for a plan without the
aggregates that the producer computes. These take columns as they are, so nothing is evaluated for rows that plain Spark
would have dropped. In the consumer's plan a column that is aggregated becomes a struct of its partial results under the
same name, which projections and joins pass on; one that is neither looked at nor aggregated raises an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_abs.core.sql_names import quote
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.narrowing.columns_and_rows import READ, find_unwritten, not_written, read_scan
from airflow_abs.spark.narrowing.halves import (
    OF_PRODUCER,
    Halves,
    ask_schema,
    check_groups,
    check_hashed,
    group,
    mark_columns,
)
from airflow_abs.spark.narrowing.merging import (
    NotMergedError,
    PartialColumns,
    call_function,
    counts_rows,
    describe,
    find_calls,
    is_bare,
    key_of,
    long_literal,
    merge_call,
    replace_calls,
    takes_distinct,
)
from airflow_abs.spark.narrowing.stand_ins import explain, scan_nothing, stand_in
from airflow_abs.spark.proof.explained import Operator, PhysicalPlan, UnreadablePlanError, read_plan
from airflow_abs.spark.proof.proof_copy import proof_copy
from airflow_abs.spark.relations import (
    Relation,
    attribute,
    column,
    no_rows,
    placeholder_relation,
    rename_columns,
    select_expressions,
    sql_expression,
)
from airflow_abs.spark.template import inline

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_PASSES_ROWS = re.compile(
    r"(Project|Filter|Generate|ColumnarToRow|InputAdapter|Scan parquet.*|Exchange|BroadcastExchange|Sort"
    r"|(SortMerge|ShuffledHash|BroadcastHash|BroadcastNestedLoop)Join .*|CartesianProduct.*)"
)
"""Operators between the scan of an input and the top of a plan that look at one of its rows at a time."""
_FLOATING = re.compile(r"\b(float|double)\b")
_PARTIAL, _ROWS = "__airflow_abs_partial_", "__airflow_abs_rows"
_REPEATABLE = ("min", "max", "bool_and", "every", "bool_or", "some", "any", "bit_and", "bit_or")
"""Aggregates that do not change when rows are repeated or left out once."""


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """The rows of one input of an aggregate, `place`, that joins them first.

    `inputs` are the schemas of all that the consumer reads of other vertices, by placeholder; one is the `placeholder`
    for the producer's rows.
    """

    session: Any
    producer: str
    place: Any
    placeholder: str
    inputs: Mapping[str, StructType]

    @property
    def schema(self) -> StructType:
        return self.inputs[self.placeholder]

    @property
    def joined(self) -> Relation:
        return getattr(self.place, self.place.WhichOneof("rel_type")).input

    def trace(self, expressions: Sequence[Any]) -> list[str]:
        """Of each expression over what is aggregated the producer's column that it is unchanged, or ""."""
        if not expressions:
            return []
        values = [column(f"value_{number}", each) for number, each in enumerate(expressions)]
        marked = partial(no_rows, mark_columns(self.schema).json())
        relation = select_expressions(self.joined, values)
        found = ask_schema(self.session, proof_copy(relation, {self.placeholder: marked}, {}))
        own = [each.metadata.get(OF_PRODUCER, "") for each in found.fields]
        same = [name and self.schema[name].dataType == each.dataType for name, each in zip(own, found, strict=True)]
        return [name if alike else "" for name, alike in zip(own, same, strict=True)]

    def find_read(self, expressions: Sequence[Any]) -> list[str]:
        """The producer's columns that anything but what the expressions leave out looks at, in their order.

        Raises:
            NotMergedError: more than one row is looked at, or it is not known which columns are.
        """
        values = [column(f"value_{number}", each) for number, each in enumerate(expressions)]
        relation = select_expressions(self.joined, values or [column("value", long_literal(1))])
        others = [name for name in self.inputs if name != self.placeholder]
        numbered = enumerate([self.placeholder, *others])
        plan = self._plan(relation, {name: partial(stand_in, number, self.inputs[name]) for number, name in numbered})
        if any(each.name == "LocalTableScan" and "<empty>" in each.detail("Arguments") for each in plan.operators()):
            raise NotMergedError("a condition of it is always false")
        paths = [path for path in _paths(plan.root) if _number_of(path[-1]) == 0]
        if len(paths) != 1:
            raise NotMergedError("no join, filter or group looks at a column of it")
        (path,) = paths
        for operator in path:
            if not _PASSES_ROWS.fullmatch(operator.name):
                raise NotMergedError(f"{operator.name} comes before, which is no join or function of one row")
        (scan,) = read_scan(path[-1], "", [self.schema])
        return [name for place, name in enumerate(self.schema.names) if place in scan.columns]

    def _plan(self, relation: Relation, inputs: Mapping[str, Any]) -> PhysicalPlan:
        try:
            plan = read_plan(explain(self.session, proof_copy(relation, inputs, {})))
        except UnreadablePlanError as error:
            raise NotMergedError("Spark's plan of what comes before cannot be read") from error
        if plan.subqueries:
            raise NotMergedError("a subquery comes before")
        return plan

    def check_unread(self, merged: Relation, written: StructType) -> None:
        """The consumer reads no column that is not written.

        Raises:
            NotMergedError: it does.
        """
        schemas = {**self.inputs, self.placeholder: written}
        inputs = {name: partial(scan_nothing, schema) for name, schema in schemas.items()}
        if found := find_unwritten(explain(self.session, proof_copy(merged, inputs, {}))):
            raise NotMergedError(f"Spark's plan reads column {found[1]} of it after all")


def keeps_rows(join: Any, side: Relation) -> bool:
    """Whether a join keeps, drops or repeats the rows of one side, and makes up none in their place."""
    kinds = protos().Join.JoinType
    either = (kinds.JOIN_TYPE_INNER, kinds.JOIN_TYPE_CROSS)
    of_left = (kinds.JOIN_TYPE_LEFT_OUTER, kinds.JOIN_TYPE_LEFT_SEMI, kinds.JOIN_TYPE_LEFT_ANTI)
    if join.left is side:
        return join.join_type in (*either, *of_left)
    return join.right is side and join.join_type in (*either, kinds.JOIN_TYPE_RIGHT_OUTER)


def merge_joined(rows: JoinedRows, keys: Sequence[str]) -> Halves:
    """Partial aggregates by all columns that the consumer looks at.

    Args:
        rows: what it aggregates.
        keys: by which the edge is hashed.

    Raises:
        NotMergedError: the consumer needs rows.
    """
    if rows.place.WhichOneof("rel_type") == "deduplicate":
        return _merge_distinct(rows, keys)
    aggregate = rows.place.aggregate
    if aggregate.group_type != protos().Aggregate.GroupType.GROUP_TYPE_GROUPBY:
        raise NotMergedError("it has several groupings at once")
    calls = [call for each in aggregate.aggregate_expressions for call in find_calls(each)]
    split = _Split.of(rows, aggregate.grouping_expressions, calls, keys)
    merged = {key_of(call): split.merge(call) for call in calls}
    output = ask_schema(rows.session, rows.place).names

    def merge(read: Relation) -> Relation:
        place = protos().Relation()
        place.CopyFrom(rows.place)
        by = [*place.aggregate.grouping_expressions]
        values = [replace_calls(each, merged) for each in place.aggregate.aggregate_expressions]
        joined = inline(split.hold(place.aggregate.input), {rows.placeholder: split.read(read)})
        return rename_columns(group(joined, by, values), output)

    return split.halves(merge)


def _merge_distinct(rows: JoinedRows, keys: Sequence[str]) -> Halves:
    """Distinct values of the columns that the consumer looks at."""
    names = ask_schema(rows.session, rows.joined).names
    place = rows.place.deduplicate
    if not place.all_columns_as_keys and set(place.column_names) != set(names):
        raise NotMergedError("dropDuplicates() of some columns keeps any of several rows")
    split = _Split.of(rows, [attribute(name) for name in names], [], keys)
    split.columns.told.append("distinct rows")

    def merge(read: Relation) -> Relation:
        return inline(rows.place, {rows.placeholder: split.read(read)})

    return split.halves(merge)


@dataclass(slots=True)
class _Split:
    """How the calls of one aggregate are split. `groups` are columns of the producer. `own` has the producer's column
    that an argument is, and `holders` the name of the struct in its place, both by `key_of` of the argument."""

    rows: JoinedRows
    groups: list[str]
    own: Mapping[bytes, str]
    arguments: Mapping[bytes, Any]
    columns: PartialColumns
    counts: bool = False
    holders: dict[bytes, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: JoinedRows, grouped: Sequence[Any], calls: Sequence[Any], keys: Sequence[str]) -> _Split:
        bare = {key_of(_argument(call)): _argument(call) for call in calls if _takes_one(call)}
        own = dict(zip(bare, rows.trace(list(bare.values())), strict=True))
        for call in calls:
            if not _is_free(call) and not (_takes_one(call) and own[key_of(_argument(call))]):
                raise _not_split(call)
        looked_at = [
            each
            for call in calls
            if not counts_rows(call) and not (_takes_one(call) and own[key_of(_argument(call))])
            for each in call.unresolved_function.arguments
        ]
        found = {*rows.find_read([*grouped, *looked_at]), *keys}
        groups = [name for name in rows.schema.names if name in found]
        _check_same([rows.schema[name].dataType for name in groups])
        check_hashed(keys, groups)
        own = {key: name for key, name in own.items() if name and name not in found}
        is_ansi = rows.session.conf.get("spark.sql.ansi.enabled") == "true"
        columns = PartialColumns(taken={name.lower() for name in groups}, may_drop=True, is_ansi=is_ansi)
        arguments = {key: bare[key] for key in own}
        holders = {key: f"{_PARTIAL}{number}" for number, key in enumerate(arguments)}
        return cls(rows, groups, own, arguments, columns, holders=holders)

    def merge(self, call: Any) -> Any:
        """What takes the place of a call."""
        function = call.unresolved_function
        if counts_rows(call):
            self.columns.told.append(describe(call))
            return sql_expression(f"coalesce(sum({self._rows()}), 0L)")
        key = key_of(_argument(call)) if _takes_one(call) else b""
        if key in self.own:
            name = self.own[key]
            self.columns.holder = self.holders[key]
            of_producer = protos().Expression()
            of_producer.CopyFrom(call)
            del of_producer.unresolved_function.arguments[:]
            of_producer.unresolved_function.arguments.append(attribute(name))
            return sql_expression(merge_call(of_producer, [self.rows.schema[name].dataType], self.columns))
        if not _is_free(call):
            raise _not_split(call)
        return self._count(function.arguments) if _counts_values(call) else call

    def _count(self, arguments: Sequence[Any]) -> Any:
        """Rows in which none of these is NULL."""
        known = [call_function("isnotnull", each) for each in arguments]
        condition = known[0]
        for each in known[1:]:
            condition = call_function("and", condition, each)
        counted = call_function("sum", call_function("when", condition, sql_expression(self._rows())))
        return call_function("coalesce", counted, long_literal(0))

    def _rows(self) -> str:
        """SQL for the rows of each partial result, where the aggregate reads it."""
        self.counts = True
        if not self.holders:
            self.columns.count_rows()
            return quote(_ROWS)
        self.columns.holder = next(iter(self.holders.values()))
        known = self.columns.count_rows()
        return self.columns.refer(known)

    def read(self, read: Relation) -> Relation:
        """All columns of the producer over what it writes."""
        values = {name: attribute(name) for name in self.groups}
        values |= {name: self._struct(name) for name in self.own.values()}
        fields = [
            column(each.name, values.get(each.name) or not_written(self.rows.producer, each))
            for each in self.rows.schema.fields
        ]
        if self.counts and not self.holders:
            fields.append(column(_ROWS, attribute(self.columns.count_rows())))
        return select_expressions(read, fields)

    def _struct(self, name: str) -> Any:
        holders = {self.holders[key] for key, own in self.own.items() if own == name}
        written = [each for each, holder in self.columns.holders.items() if holder in holders]
        pairs = [(_text(each), attribute(each)) for each in written]
        return call_function("named_struct", *(part for pair in pairs for part in pair))

    def hold(self, joined: Relation) -> Relation:
        """What is aggregated, with the structs under names of their own: two inputs may have columns of one name."""
        if not self.holders:
            return joined
        star = protos().Expression()
        star.unresolved_star.SetInParent()
        structs = [column(self.holders[key], each) for key, each in self.arguments.items()]
        return select_expressions(joined, [star, *structs])

    def halves(self, merge: Callable[[Relation], Relation]) -> Halves:
        self.columns.holder = ""
        rows_column = self.columns.count_rows()
        written = group(
            placeholder_relation(self.rows.placeholder, self.rows.schema.json()),
            [column(name, attribute(name)) for name in self.groups],
            [column(name, each) for name, each in self.columns.expressions.items()],
        )
        told = tuple(dict.fromkeys(self.columns.told)) or ("distinct groups",)
        return Halves(written, rows_column, merge, told, tuple(self.groups))


def _is_free(call: Any) -> bool:
    """Whether it may be about any rows: what it gives depends on which there are, or on how many."""
    return call.unresolved_function.function_name.lower() in (*_REPEATABLE, "count")


def _counts_values(call: Any) -> bool:
    return call.unresolved_function.function_name.lower() == "count" and not takes_distinct(call)


def _not_split(call: Any) -> NotMergedError:
    return NotMergedError(
        f"{describe(call)} is not about a column of this input, as the input has it, that nothing else looks at"
    )


def _takes_one(call: Any) -> bool:
    """Whether it is a call about one column, with each of its values as often as it is there."""
    arguments = call.unresolved_function.arguments
    return not takes_distinct(call) and not counts_rows(call) and len(arguments) == 1 and is_bare(arguments[0])


def _argument(call: Any) -> Any:
    return call.unresolved_function.arguments[0]


def _check_same(types: Sequence[DataType]) -> None:
    """Of equal values one stands for all: not of 0.0 and -0.0."""
    check_groups(types)
    for each in types:
        if _FLOATING.search(each.simpleString()):
            raise NotMergedError(f"its join, filters or groups look at values of {each.simpleString()}")


def _paths(root: Operator) -> Iterator[list[Operator]]:
    """To every operator without children, the root first."""
    waiting = [[root]]
    while waiting:
        path = waiting.pop()
        if not path[-1].children:
            yield path
        waiting.extend([*path, child] for child in path[-1].children)


def _number_of(scan: Operator) -> int | None:
    """Of the stand-in that it scans."""
    found = READ.search(scan.detail("ReadSchema"))
    return int(found[1]) if found else None


def _text(value: str) -> Any:
    proto = protos()
    return proto.Expression(literal=proto.Expression.Literal(string=value))
