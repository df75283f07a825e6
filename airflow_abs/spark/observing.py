"""What Spark counts of the rows while it writes them: their number, the sum of their hashes, who fails an expectation.

All of it is observed metrics of the one operation that writes; nothing is read twice. Whether a row repeats a key is
known by a window over the subtask's rows, which the template has as a column of its own (`mark_repeats`).

Of rows that could be written as partial results it also counts the groups in a sample: `plan` then knows on the next
day whether that pays. The sample has all rows of one group in `SAMPLED`, so groups over rows is the share that one
group by per subtask would leave of all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_abs.core.durability.prediction import SAMPLED
from airflow_abs.core.expect.expectations import Expectation, unique_keys
from airflow_abs.core.expect.verdicts import Tally
from airflow_abs.core.sql_names import quote
from airflow_abs.exchange.records.plan import PlannedStep
from airflow_abs.exchange.results.parquet_bytes import SUBPARTITION_COLUMN
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.relations import Relation, drop_columns, sql_expression

REPEAT_PREFIX = "__airflow_abs_repeats_"
"""Of the columns that say whether a row repeats the key of an earlier one."""
_SAMPLE = "__airflow_abs_sampled"
"""The column with the hash of a sampled row's group; NULL in other rows. It is computed before Spark counts, because
generated code computes it, and what counts distinct values interprets its argument."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What one write counted; None is what was not asked for. A checksum is 0 for no rows. `combined` are the rows that
    were combined into partial results, `sampled` the rows and the groups (within 5 %) of a sample."""

    rows: int | None = None
    checksum: int | None = None
    combined: int | None = None
    sampled: tuple[int, int] | None = None
    tallies: Mapping[str, Tally] = field(default_factory=dict)


def repeat_expression(key: Expectation) -> str:
    """SQL that is true for a row whose key an earlier row of the same subtask has; rows with a NULL in it have none."""
    columns = [quote(column) for column in key.columns]
    keys = ", ".join(columns)
    known = " AND ".join(f"{column} IS NOT NULL" for column in columns)
    return f"{known} AND row_number() OVER (PARTITION BY {keys} ORDER BY {keys}) > 1"


def mark_repeats(relation: Relation, expectations: Sequence[Expectation]) -> Relation:
    """The rows with a column for each unique key: whether they repeat one."""
    keys = unique_keys(expectations)
    if not keys:
        return relation
    proto = protos()
    columns = [
        proto.Expression.Alias(expr=sql_expression(repeat_expression(key)), name=[name])
        for key, name in zip(keys, _repeat_columns(expectations), strict=True)
    ]
    return proto.Relation(with_columns=proto.WithColumns(input=relation, aliases=columns))


def template_columns(step: PlannedStep) -> list[str]:
    """Names of all columns of a step's template, in order: the result's, and those that are put behind them."""
    numbered = [SUBPARTITION_COLUMN] if step.is_numbered else []
    return [*step.columns, *_repeat_columns(step.expectations), *numbered]


def observe(relation: Relation, name: str, step: PlannedStep) -> Relation:
    """Let Spark count what the step asks for while the rows pass; see `read_observed`.

    `name` must be the operation's own: Spark mixes up what operations of one session observe under the same name.
    """
    metrics = [sql_expression("count(1)")] if _is_observed(step) else []
    if step.row_hash:
        metrics.append(sql_expression(f"sum({step.row_hash})"))
    if step.rows_column:
        metrics.append(sql_expression(f"sum({quote(step.rows_column)})"))
    if step.sampled:
        relation = _mark_sample(relation, step.sampled)
        metrics += [sql_expression(f"{function}({_SAMPLE})") for function in ("count", "approx_count_distinct")]
    for expectation in step.expectations:
        metrics += _metrics(expectation, step.expectations)
    if not metrics:
        return relation
    observed = collect_metrics(relation, name, metrics)
    added = _repeat_columns(step.expectations) + ([_SAMPLE] if step.sampled else [])
    return drop_columns(observed, added) if added else observed


def read_observed(observed: Mapping[str, bytes], name: str, step: PlannedStep) -> Observed:
    """What `observe` counted, from the metrics that came with the operation's outcome."""
    if name not in observed:
        return Observed()
    found = read_metrics(observed[name])
    if not found:  # before Spark 4.2, where 4.2 says nothing: the part's plan turned out to be empty
        return Observed()
    values = iter([int(value.long) for value in found])
    rows = next(values)
    checksum = next(values) if step.row_hash else None
    combined = next(values) if step.rows_column else None
    sampled = (next(values), next(values)) if step.sampled else None
    counted = [each for each in step.expectations if not each.is_row_count]
    tallies = {each.name: Tally(next(values), next(values)) for each in counted}
    return Observed(rows, checksum, combined, sampled, tallies)


def _mark_sample(relation: Relation, groups: Sequence[str]) -> Relation:
    group = f"xxhash64({', '.join(map(quote, groups))})"
    value = sql_expression(f"CASE WHEN pmod({group}, {SAMPLED}) = 0 THEN {group} END")
    proto = protos()
    alias = proto.Expression.Alias(expr=value, name=[_SAMPLE])
    return proto.Relation(with_columns=proto.WithColumns(input=relation, aliases=[alias]))


def collect_metrics(relation: Relation, name: str, metrics: Sequence[Any]) -> Relation:
    """Let Spark compute expressions over all rows that pass; see `read_metrics`.

    Each has its place for a name: Spark 4.0 keeps one of those that have the same name, and answers in any order.
    """
    proto = protos()
    placed = [
        proto.Expression(alias=proto.Expression.Alias(expr=metric, name=[str(place)]))
        for place, metric in enumerate(metrics)
    ]
    return proto.Relation(collect_metrics=proto.CollectMetrics(input=relation, name=name, metrics=placed))


def read_metrics(observed: bytes) -> list[Any]:
    """Their values, literals of Spark Connect, in the order in which they were asked for; none if no row passed."""
    metrics: Any = protos().ExecutePlanResponse.ObservedMetrics.FromString(observed)
    placed = sorted(zip(metrics.keys, metrics.values, strict=True), key=lambda each: int(each[0]))
    return [value for _, value in placed]


def _repeat_columns(expectations: Sequence[Expectation]) -> list[str]:
    return [f"{REPEAT_PREFIX}{number}" for number, _ in enumerate(unique_keys(expectations))]


def _is_observed(step: PlannedStep) -> bool:
    """Text formats do not say how many rows they hold."""
    return step.format != "parquet" or bool(step.row_hash or step.expectations or step.rows_column or step.sampled)


def _metrics(expectation: Expectation, among: Sequence[Expectation]) -> list[Any]:
    """Two numbers: rows that fail, and those for which it is unknown."""
    if expectation.is_row_count:
        return []
    if expectation.condition is None:
        column = _repeat_columns(among)[unique_keys(among).index(expectation)]
        return [sql_expression(f"count_if({column})"), sql_expression("count_if(false)")]
    condition = sql_expression(expectation.condition)  # parsed by itself: a comment in it ends with it
    is_met = _call("coalesce", condition, sql_expression("false"))
    return [_call("count_if", _call("not", is_met)), _call("count_if", _call("isnull", condition))]


def _call(name: str, *arguments: Any) -> Any:
    proto = protos()
    return proto.Expression(
        unresolved_function=proto.Expression.UnresolvedFunction(function_name=name, arguments=arguments)
    )
