"""Partition folders of a source, as Hive has them (``ds=2026-01-01/hour=3``): its columns that no file holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date

from airflow_abs.core.pruning.value_ranges import Span, Value, comparable
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.glob_pattern import is_glob

_NULL = "__HIVE_DEFAULT_PARTITION__"
_WHOLE, _DAY = re.compile(r"-?\d{1,18}"), re.compile(r"\d{4}-\d{2}-\d{2}")
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")


def partition_of(files: Files, path: str) -> str | None:
    """The folders between a source and one of its files, ``ds=2026-01-01/hour=3``; empty if there is none.

    None where they are not partition columns, or where only Spark knows where they begin.
    """
    base = files.uri.rstrip("/") + "/"
    if files.is_recursive or is_glob(files.path) or files.base_path is not None or not path.startswith(base):
        return None
    folders = path.removeprefix(base).split("/")[:-1]
    return "/".join(folders) if all(folder.find("=") > 0 for folder in folders) else None


def partition_values(partition: str) -> Mapping[str, str | None]:
    """Column to text, as Spark takes it from the folders' names: unescaped, and None for Hive's default partition."""
    pairs = [folder.split("=", 1) for folder in partition.split("/") if folder]
    return {_unescaped(name): None if value == _NULL else _unescaped(value) for name, value in pairs}


def span_in_folders(files: Files, path: str, column: str, kind: str) -> Span | None:
    """What the folders of a file say of a column; None if they do not, or in a way that only Spark understands.

    Args:
        kind: of its values, as `pruning_kind` has it.
    """
    partition = partition_of(files, path)
    values = partition_values(partition) if partition else {}
    if column not in values:
        return None
    text = values[column]
    if text is None:
        return ()
    value: Value | None = None
    if kind == "string":
        value = text
    elif kind == "integer" and _WHOLE.fullmatch(text):
        value = int(text)
    elif kind == "date" and _DAY.fullmatch(text):
        with suppress(ValueError):  # such as 2026-02-31, which Spark reads as NULL or refuses
            value = comparable(date.fromisoformat(text))
    return None if value is None else (value,)


def _unescaped(text: str) -> str:
    """Spark escapes single characters: ``a%3Ab`` is ``a:b``."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
