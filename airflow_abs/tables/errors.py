"""What can be wrong with a table."""

from __future__ import annotations

from airflow_abs.exchange.errors import ExchangeError


class TableError(ExchangeError):
    """A table cannot be found, read as it is, or written to; the message says what to do."""


def first_line(error: Exception) -> str:
    """What a library says, without its stack."""
    return str(error).partition("\n")[0]
