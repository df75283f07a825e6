"""Names and texts in Spark's SQL."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[\w .,:;/+*%()\[\]{}=<>!?@#&|~^$-]*", re.ASCII)


def quote(name: str) -> str:
    """A column name as SQL takes it literally."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(value: str) -> str:
    """A text as SQL that means the same whatever the settings of its parser are."""
    return f"'{value}'" if _PLAIN.fullmatch(value) else f"CAST(X'{value.encode().hex()}' AS STRING)"
