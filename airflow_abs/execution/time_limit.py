"""A time limit that is told from the timeouts of what runs within it: both are `TimeoutError` to Python."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from airflow_abs.exchange.errors import ExchangeUnreachableError

Result = TypeVar("Result")


class TimeIsUpError(Exception):
    """The limit was reached, and what ran was cancelled."""


async def run_within(seconds: float | None, work: Awaitable[Result]) -> Result:
    """Await `work` for at most so long; None is without end.

    Raises:
        TimeIsUpError: that long has passed.
        ExchangeUnreachableError: something inside gave up by a clock of its own (ETIMEDOUT of a store or a mount).
    """
    clock = asyncio.timeout(seconds)
    try:
        async with clock:
            return await work
    except TimeoutError as error:
        if clock.expired():
            raise TimeIsUpError from None
        raise ExchangeUnreachableError(
            f"a storage or a service did not answer in time ({type(error).__name__}: {error}); expected an answer: "
            "check the network and the load of the exchange's storage. It will be retried"
        ) from error
