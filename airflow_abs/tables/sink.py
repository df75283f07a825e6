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
    """What one run has for a table.

    Args:
        publisher: whose they are, the same in every try of a plan.
        digest: tells two publications of one run apart: other files, another mode. 64 hexadecimal digits.
        files: those with rows, in the exchange, of all subtasks; each is Parquet with the columns of the target's
            schema but those of `partition_by`, whose values stand in the folders of its name.
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
        replaced: identities of other runs whose rows are gone with this publication.
        details: JSON values in the words of the kind, such as ``{"snapshot": 7041}``; they go to what `commit` returns
            and to the asset's event.
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
        """The URI of the asset that its publication updates; None if unknown before the run."""

    @staticmethod
    def publish(
        target: TargetTable,
        run: RunFiles,
        access: TableAccess,
        on_step: Callable[[str], None],
    ) -> Published:
        """Make the run's rows those of the table, all at once; in `commit`, on whatever worker.

        It may be killed anywhere and is then called again, it may be repeated days later, and others may publish to the
        table meanwhile: the run's rows are in the table once. A run that comes again with another digest was cleared:
        what it has now takes the place of what it published before, unless a later plan of it did so already.

        Args:
            target: as `target` gave it, back from JSON, with its kind.
            run: its files, which are to be left where they are; there may be none.
            access: as in `target`.
            on_step: to be told each step that is done; what it raises must end the publication there, as a kill would.

        Raises:
            SupersededError: a later plan of the run has published, see `Publisher.check_order`.
            CommitConflictError: others published what this would overwrite unseen; it is not tried again by itself.
            TargetBusyError: others keep it from publishing for now; it is tried again.
            ExchangeError: a staged file is gone or damaged, or (`TableError`) why the table cannot take the rows.
        """
