"""Short ways to write transforms."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any


def sql(query: str) -> Callable[..., Any]:
    """A transform that runs a query; its inputs are the names in braces."""
    names = list(dict.fromkeys(re.findall(r"\{(\w+)\}", query)))

    def transform(**frames: Any) -> Any:
        return frames[names[0]].sparkSession.sql(query, **frames)

    kind = inspect.Parameter.KEYWORD_ONLY
    transform.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return transform


def functions() -> Any:
    from pyspark.sql import functions as sf

    return sf


def by_customer(*order: str) -> Any:
    from pyspark.sql import Window

    return Window.partitionBy("customer").orderBy(*order)


def same(frame):  # type: ignore[no-untyped-def] # hints would choose how pandas calls it
    return frame
