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


def count_table() -> Any:
    """A table function that says how many rows it had."""

    class Count:
        def eval(self, row: Any) -> None: ...

        def terminate(self) -> Any:
            yield (1,)

    return functions().udtf(Count, returnType="n: int")


def over_batches() -> Any:
    """A function of a column that sees the batches of a partition one after the other."""
    from collections.abc import Iterator

    import pandas as pd

    def number(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        yield from batches

    number.__annotations__ = {"batches": Iterator[pd.Series], "return": Iterator[pd.Series]}
    return functions().pandas_udf(number, "bigint")


def same(frame):  # type: ignore[no-untyped-def] # hints would choose how pandas calls it
    return frame
