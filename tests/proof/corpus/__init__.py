"""The corpus: transforms by family, each with what plain reasoning says of it."""

from __future__ import annotations

from importlib import import_module

from tests.proof.entries import Entry

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
    """All entries in order; their names are unique over all families."""
    found = [entry for name in families for entry in import_module(f"{__name__}.{name}").FAMILY.entries]
    names = [entry.name for entry in found]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"names of several entries: {sorted(twice)}"
    return found
