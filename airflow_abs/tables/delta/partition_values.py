"""Partition values of Delta tables, which stand in the log and in no file, as texts and as SQL.

A text of ours is the same in every writer: an ISO date, microseconds since 1970 (in UTC, or of the clock), digits of a
number with its scale. The empty text of a string column is NULL: so says the protocol.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from airflow_abs.core.sql_names import quote

TEXT_PREFIX = "v"
"""Of texts in names of folders: Spark takes an empty one for NULL."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NUMBERS = ("long", "integer", "short", "byte")
_READ_ONLY = ("float", "double")
_TIMES = ("timestamp", "timestamp_ntz")


def is_written(kind: str) -> bool:
    """Whether Spark can compute partition values of a type as Delta has them."""
    return kind in (*_NUMBERS, "string", "boolean", "date", *_TIMES) or _is_decimal(kind)


def is_read(kind: str) -> bool:
    return is_written(kind) or kind in _READ_ONLY


def text_of(value: Any) -> str | None:
    """Of a value as deltalake gives it."""
    match value:
        case None | "":
            return None
        case bool():
            return str(value).lower()
        case Decimal():
            return f"{value:f}"
        case datetime():
            return str(_micros(value))
        case date():
            return value.isoformat()
    return str(value)


def read_expression(kind: str, column: str) -> str:
    """SQL of the value whose text is in `column`."""
    match kind:
        case "string":
            return column
        case "timestamp":
            return f"timestamp_micros(CAST({column} AS BIGINT))"
        case "timestamp_ntz":
            micros = f"CAST({column} AS BIGINT)"
            return f"TIMESTAMP_NTZ'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, {micros} / 1000000BD)"
    return f"CAST({column} AS {kind})"


def write_expression(kind: str, column: str) -> str:
    """SQL of what becomes the name of a folder, which `text_of_folder` takes."""
    match kind:
        case "string":
            return f"concat('{TEXT_PREFIX}', {quote(column)})"
        case "timestamp":
            return f"CAST(unix_micros({quote(column)}) AS STRING)"
    return f"CAST({quote(column)} AS STRING)"


def text_of_folder(kind: str, text: str | None) -> str | None:
    """The text of a value whose folder Spark has called so; an empty string stays one."""
    if text is None:
        return None
    if kind == "string":
        return text.removeprefix(TEXT_PREFIX)
    if kind == "timestamp_ntz":
        return str(_micros(datetime.fromisoformat(text)))
    return plain(kind, text)


def plain(kind: str, text: str) -> str:
    """The text of a value for any that Spark writes: it calls a small decimal ``1.0E-7`` unless ANSI mode is on."""
    return text_of(Decimal(text)) or text if _is_decimal(kind) else text


def logged_text(kind: str, text: str | None) -> str | None:
    """What the log of the table has to say for a text of ours."""
    if text is None or kind not in _TIMES:
        return text
    return (_EPOCH + int(text) * _MICROSECOND).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def text_in_log(kind: str, logged: str | None) -> str | None:
    """The inverse of `logged_text`, for texts of any writer."""
    if not logged:
        return None
    return str(_micros(datetime.fromisoformat(logged))) if kind in _TIMES else plain(kind, logged)


def internal(value: Any) -> Any:
    """A value as deltalake gives it, as conditions compare it: days of a date, microseconds of a time."""
    match value:
        case datetime():
            return _micros(value)
        case date():
            return (value - _EPOCH.date()).days
    return value


def _micros(value: datetime) -> int:
    return (value.replace(tzinfo=value.tzinfo or UTC) - _EPOCH) // _MICROSECOND


def _is_decimal(kind: str) -> bool:
    return kind.startswith("decimal(")
