"""Partition folders of a source, as Hive has them (``ds=2026-01-01/hour=3``): its columns that no file holds."""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.glob_pattern import is_glob

_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")


def partition_of(files: Files, path: str) -> str | None:
    """The folders between a source and one of its files, ``ds=2026-01-01/hour=3``; empty if there is none.

    None where they are no partition columns, or such of which only Spark knows where they begin.
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


def _unescaped(text: str) -> str:
    """Spark escapes single characters: ``a%3Ab`` is ``a:b``."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
