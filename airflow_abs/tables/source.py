"""What a table must be able to do to be the source of a vertex."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from airflow_abs.exchange.incremental.new_files import NewFiles
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.pinned import PinnedTable
from airflow_abs.exchange.sources.splits import list_splits
from airflow_abs.exchange.storage.locations import ExchangePath


@dataclass(frozen=True, slots=True)
class Pin:
    """One version of a table, fixed by `plan`.

    Args:
        schema: Spark's JSON of the columns that the transform sees.
        pinned: what is recorded of it.
        files: the files that are read, in the order in which they are numbered as splits.
    """

    schema: str
    pinned: PinnedTable
    files: tuple[SourceFile, ...]


class TableSource(Protocol):
    """A table of any kind. It is declared as a DAG file is parsed, and must not do any I/O before `pin`."""

    def to_json(self) -> dict[str, Any]:
        """The declaration with its templates, and its `kind`."""

    def pin(self, connect: Callable[[str], Mapping[str, str]]) -> Pin:
        """Ask the table what it holds, once, in `plan`. May call outside systems and take seconds.

        Args:
            connect: an Airflow connection's id to what the connection holds, as plain properties.

        Raises:
            TableError: what is wrong, and what to do.
        """


Given = Files | Pin | NewFiles
"""What a vertex reads in a run: files that are listed when they are needed, or such as `plan` has fixed."""


def splits_of(source: Given, open_path: Callable[[str], ExchangePath]) -> Sequence[SourceFile]:
    """What a source holds today: files are listed, unless they were fixed.

    Raises:
        ExchangeError: see `list_splits`.
    """
    return list_splits(source, open_path) if isinstance(source, Files) else source.files
