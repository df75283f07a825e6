"""Arguments that tables of several kinds take, read and checked alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

from airflow_abs.exchange.publish.target_table import TableMode
from airflow_abs.exchange.sources.files import check_file_count, column_list
from airflow_abs.tables.errors import TableError

MODES: tuple[TableMode, ...] = get_args(TableMode)


def check_sink(who: str, mode: str, sort_by: Any, files: Any) -> tuple[str, ...]:
    """What a sink is told of its rows; the columns of `sort_by`.

    Args:
        who: such as ``DeltaTable('/lake/orders')``.

    Raises:
        ValueError: an unknown mode, invalid column names, less than one file.
    """
    if mode not in MODES:
        raise ValueError(f"{who}: mode is {mode!r}; expected one of {', '.join(MODES)}")
    check_file_count(who, files)
    return column_list(who, "sort_by", sort_by)


def read_number(table: str, name: str, value: int | str | None, expected: str) -> int | None:
    """A number that may have been a template; None where that left nothing.

    Args:
        name: of the argument.
        expected: such as ``the id of a snapshot``.

    Raises:
        TableError: it is no number.
    """
    if not is_given(value):
        return None
    try:
        return int(str(value))
    except ValueError as error:
        raise TableError(f"table {table}: {name} is {value!r}; expected {expected}") from error


def is_given(value: object) -> bool:
    """Whether an argument that may have been a template says something."""
    return value not in (None, "", "None")


def refuse_source_arguments(table: str, name: str, *given: object) -> None:
    """A sink is given `where` or `name`, which choose what a source reads.

    Raises:
        TableError: one is not None.
    """
    if any(each is not None for each in given):
        raise TableError(
            f"table {table}: where= and {name}= choose what a source reads, and this is a sink; leave them out"
        )


@contextmanager
def installed(table: str, extra: str) -> Iterator[None]:
    """Imports of the format's own library.

    Raises:
        TableError: it is not there; names the extra that brings it.
    """
    try:
        yield
    except ImportError as error:
        raise TableError(f"table {table}: {error}; install airflow-abs[{extra}] where Airflow's workers run") from error
