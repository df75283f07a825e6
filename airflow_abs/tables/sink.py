"""What a table must be able to do to be the sink of a vertex."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from airflow_abs.exchange.publish.target_table import TargetTable


class TableSink(Protocol):
    """A table of any kind. It is declared as a DAG file is parsed, and must not do any I/O before `target`."""

    @property
    def mode(self) -> str:
        """``append`` if it keeps what earlier runs published, and adds to it."""

    def to_json(self) -> dict[str, Any]:
        """The declaration with its templates, and its `kind`."""

    def target(self, connect: Callable[[str], Mapping[str, str]]) -> TargetTable:
        """Ask the table for its columns and partitions, once, in `plan`.

        Args:
            connect: an Airflow connection's id to what the connection holds, as plain properties.

        Raises:
            TableError: what is wrong, and what to do.
        """

    @property
    def asset_uri(self) -> str | None:
        """The URI of the asset that its publication updates; None if nobody knows before the run."""
