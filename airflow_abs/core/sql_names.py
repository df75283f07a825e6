"""Names in Spark's SQL."""

from __future__ import annotations


def quote(name: str) -> str:
    """A column name as SQL takes it literally."""
    return "`" + name.replace("`", "``") + "`"
