"""Transforms by family, each with what plain reasoning says of it."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_abs.spark.connect.abilities import release_number
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

SINCE: Mapping[str, tuple[int, int]] = {
    "repartition_by_id": (4, 1),
    "sql_recursive_closure": (4, 1),
    "total_of_numbered_partitions": (4, 1),
}
"""Entries that the first releases of Spark 4 do not run, and the release line that does."""


def read_corpus(families: tuple[str, ...] = FAMILIES, release: str = "") -> list[Entry]:
    """All entries in order; their names are unique over all families. Loads pyspark.

    With the release of a server ("4.0.5") only those that Spark runs there.
    """
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
    return [entry for entry in found if not release or SINCE.get(entry.name, ()) <= release_number(release)]
