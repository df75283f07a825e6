"""What a table must be able to do to be the sink of a vertex."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.tables.access import TableAccess

if TYPE_CHECKING:
    from airflow_abs.exchange.publish.record import StagedFile


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What one run publishes to a table.

    Args:
        publisher: identifies the run, the same in every try of a plan.
        digest: differs between publications of one run with other files or another mode. 64 hexadecimal digits.
        files: all non-empty files of all subtasks, in the exchange; each is Parquet with the columns of the target's
            schema, except those of `partition_by`, whose values are in the folder names.
    """

    publisher: Publisher
    digest: str
    files: tuple[StagedFile, ...]

    @property
    def identity(self) -> str:
        """Names the run, the same in every try of every plan of it."""
        return self.publisher.identity


@dataclass(frozen=True, slots=True)
class Published:
    """The outcome.

    Args:
        changed: False if the run's rows were there already.
        replaced: identities of other runs whose rows this publication removed.
        details: JSON values of the kind's own, such as ``{"snapshot": 7041}``, for the result of `commit` and the asset
            event.
    """

    changed: bool
    replaced: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


class TableSink(Protocol):
    """A table of any kind. It is declared as a DAG file is parsed, and must not do any I/O before `target`.

    Its class stands at the top of a module that workers can import, and takes as keywords what `to_json` returned.
    """

    @property
    def mode(self) -> str:
        """``append`` if it keeps what earlier runs published, and adds to it."""

    def to_json(self) -> dict[str, Any]:
        """The declaration with its templates, as JSON values; the key ``kind`` is taken."""

    def target(self, access: TableAccess) -> TargetTable:
        """Ask the table for its columns and partitions, once, in `plan`.

        Args:
            access: as in `TableSource.pin`.

        Raises:
            TableError: what is wrong, and what to do.
        """

    @property
    def asset_uri(self) -> str | None:
        """The URI of the asset that a publication updates; None if unknown before the run."""

    @staticmethod
    def publish(
        target: TargetTable,
        run: RunFiles,
        access: TableAccess,
        on_step: Callable[[str], None],
    ) -> Published:
        """Publish the run's rows to the table, all at once; called by `commit`, on any worker.

        It may be killed anywhere and called again, also days later, while others publish to the table: the run's rows
        are in the table exactly once. A run with another digest was cleared: its rows replace those that it published
        before, unless a later plan of it has already done so.

        Args:
            target: what `target` returned, read back from JSON, with its kind.
            run: the run's files, if any; do not move them.
            access: as in `target`.
            on_step: called after each step; if it raises, the publication must stop there, as if killed.

        Raises:
            SupersededError: a later plan of the run has published, see `Publisher.check_order`.
            CommitConflictError: others published rows that this would overwrite unseen; not retried.
            TargetBusyError: others hold the table or keep writing to it; retried.
            ExchangeError: a staged file is gone or damaged, or (`TableError`) why the table cannot take the rows.
        """
