"""Transforms by family, each with what plain reasoning says of it."""

from __future__ import annotations

from airflow_abs.testing.corpus_bench.entries import Entry

FAMILIES = (
    "row_wise",
    "nested",
    "aggregates",
    "windows",
    "joins",
    "keys",
    "sets_and_order",
    "sql_clauses",
    "python_functions",
    "partitions",
    "values",
    "outside",
    "pipelines",
)


def read_corpus(families: tuple[str, ...] = FAMILIES) -> list[Entry]:
    """All entries in order; their names are unique over all families. Loads pyspark."""
    from airflow_abs.testing.corpus import (
        aggregates,
        joins,
        keys,
        nested,
        outside,
        partitions,
        pipelines,
        python_functions,
        row_wise,
        sets_and_order,
        sql_clauses,
        values,
        windows,
    )

    modules = (
        row_wise, nested, aggregates, windows, joins, keys, sets_and_order, sql_clauses, python_functions, partitions,
        values, outside, pipelines,
    )  # fmt: skip
    by_name = dict(zip(FAMILIES, modules, strict=True))
    found = [entry for name in families for entry in by_name[name].FAMILY.entries]
    names = [entry.name for entry in found]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"names of several entries: {sorted(twice)}"
    return found
