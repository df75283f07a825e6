"""Names and texts in Spark's SQL."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[\w .,:;/+*%()\[\]{}=<>!?@#&|~^$-]*", re.ASCII)

REPETITION = re.compile(r"(?<!\{)\{(\d+(?:,\d*)?)\}(?!\})")
"""As in regular expressions: ``[0-9]{4}``, ``{2,}``."""


def quote(name: str) -> str:
    """A column name as SQL takes it literally."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(value: str) -> str:
    """A text as SQL that means the same whatever the settings of its parser are."""
    return f"'{value}'" if _PLAIN.fullmatch(value) else f"CAST(X'{value.encode().hex()}' AS STRING)"


def escape_repetitions(sql: str) -> str:
    """A query in which only the names of its inputs are left in single braces, as `SparkSession.sql` replaces them."""
    return REPETITION.sub(r"{{\1}}", sql)
