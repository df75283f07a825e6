"""The partitions of a table as the catalog has them: their values, and what Spark makes of those."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_abs.core.pruning.value_ranges import Span, comparable
from airflow_abs.core.sql_names import quote, text_literal
from airflow_abs.exchange.sources.partitions import partition_values
from airflow_abs.exchange.sources.pruned_by import pruning_kind
from airflow_abs.tables.catalog.statements import SparkCatalog, ask
from airflow_abs.tables.delta.partition_values import plain

_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f")
_FIRST_SHOWN = 0x20


@dataclass(frozen=True, slots=True)
class Partition:
    """One of a table's; `values` are the catalog's texts, in the order of the partition columns, None for NULL."""

    values: tuple[str | None, ...]
    location: str


def folder_of(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """The folder that Spark gives to a partition, below the table's."""
    return "/".join(
        f"{_escape(column)}={_NULL if text is None else _escape(text)}"
        for column, text in zip(columns, values, strict=True)
    )


def _escape(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED or ord(char) < _FIRST_SHOWN else char for char in text)


def list_values(table: str, catalog: SparkCatalog, quoted: str, columns: Sequence[str]) -> list[tuple[str | None, ...]]:
    """The values of all partitions, in the catalog's order.

    Raises:
        TableError: the catalog does not tell them.
    """
    named = (partition_values(told) for (told,) in ask(table, catalog, f"SHOW PARTITIONS {quoted}"))
    return [tuple(values[column] for column in columns) for values in named]


def choose(
    table: str,
    catalog: SparkCatalog,
    types: Mapping[str, str],
    listed: Sequence[tuple[str | None, ...]],
    condition: str,
) -> list[tuple[str | None, ...]]:
    """Those for whose values a condition on the partition columns is true, as Spark has it.

    Args:
        types: of the partition columns, in order, in Spark's words.
        condition: SQL.
    """
    rows = _ask_of_values(table, catalog, types, listed, ["__number"], condition)
    return [listed[number] for (number,) in sorted(rows)]


def as_written(
    table: str, catalog: SparkCatalog, types: Mapping[str, str], listed: Sequence[tuple[str | None, ...]]
) -> list[tuple[str | None, ...]]:
    """The texts that Spark itself writes of the values of partitions: ``7`` where the catalog has ``07``."""
    texts = [f"CAST({quote(column)} AS STRING)" for column in types]
    rows = _ask_of_values(table, catalog, types, listed, ["__number", *texts], "TRUE")
    kinds = list(types.values())
    written = {number: tuple(map(_plain, kinds, values)) for number, *values in rows}
    return [written[number] for number in range(len(listed))]


def _plain(kind: str, text: str | None) -> str | None:
    return None if text is None else plain(kind, text)


def spans(
    table: str, catalog: SparkCatalog, types: Mapping[str, str], listed: Sequence[tuple[str | None, ...]], column: str
) -> dict[tuple[str | None, ...], Span | None]:
    """What is known of a column in each partition; see `Pin.spans`."""
    if column not in types or pruning_kind(types[column]) is None:
        return dict.fromkeys(listed)
    value = quote(column)
    if types[column] == "timestamp":  # whatever zone the session shows it in
        value = f"unix_micros({value})"
    rows = _ask_of_values(table, catalog, types, listed, ["__number", value], "TRUE")
    return {listed[number]: () if found is None else (comparable(found),) for number, found in rows}


def hashes(
    table: str, catalog: SparkCatalog, types: Mapping[str, str], listed: Sequence[tuple[str | None, ...]]
) -> list[int]:
    """`hash_of` the values of partitions; those of two may be the same."""
    rows = _ask_of_values(table, catalog, types, listed, ["__number", hash_of(types)], "TRUE")
    return [found for _, found in sorted(rows)]


def hash_of(columns: Iterable[str]) -> str:
    """SQL of a number made of partition columns."""
    return f"xxhash64({', '.join(f'CAST({quote(column)} AS STRING)' for column in columns)})"


def _ask_of_values(
    table: str,
    catalog: SparkCatalog,
    types: Mapping[str, str],
    listed: Sequence[tuple[str | None, ...]],
    wanted: Sequence[str],
    condition: str,
) -> list[tuple[Any, ...]]:
    """Of partition values, made of the catalog's texts as Spark itself does it."""
    if not listed:
        return []
    texts = [f"__text_{number}" for number in range(len(types))]
    rows = ", ".join(_row(number, values) for number, values in enumerate(listed))
    named = ", ".join(
        f"CAST({text} AS {kind}) AS {quote(name)}" for text, (name, kind) in zip(texts, types.items(), strict=True)
    )
    values = f"SELECT __number, {named} FROM VALUES {rows} AS t(__number, {', '.join(texts)})"  # noqa: S608
    return ask(table, catalog, f"SELECT {', '.join(wanted)} FROM ({values}) WHERE {condition}")  # noqa: S608


def _row(number: int, values: Sequence[str | None]) -> str:
    texts = ("CAST(NULL AS STRING)" if text is None else text_literal(text) for text in values)
    return f"({', '.join((str(number), *texts))})"
