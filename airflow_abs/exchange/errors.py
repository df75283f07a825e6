"""Errors of files that Airflow and Spark share::

    ExchangeError
    |-- ExchangeUnreachableError      the root or a path cannot be reached, written or read at all
    |-- StoredFileError               one stored file is not what it should be (`.path` names it)
    |   |-- MissingFileError          it is not there
    |   |-- DamagedFileError          truncated, altered, or written by something else
    |   |-- IncompatibleFileError     written by a version of this package that we do not read
    |   `-- StaleManifestError        whole and readable, but of another decision, region or index
    |-- SourceNotFoundError           a source path or pattern matches nothing
    |-- CheckpointHeldError           another query runs on a stream's checkpoint
    |-- CheckpointMisfitError         a stream was changed so that it cannot resume from its checkpoint
    |-- LeaseLostError                another process supervises this stream's query now
    |-- PlanMismatchError             the DAG file has changed since the run was planned
    |-- OutdatedInputError            rows were made of what does not count any more: they are not published
    |-- ExpectationError              rows are not as the author expects: nothing that rests on them is published
    `-- CommitError                   a sink was not published; what was there before is untouched
        |-- CommitConflictError       others wrote what this publication would replace: a person decides
        |-- SupersededError           a later plan of the same run, or later rows, are published: this is a leftover
        |-- TargetBusyError           another run is publishing to the same target right now
        `-- TargetExistsError         mode "error" and the target holds data of somebody else

All have one message and survive pickling, including `.path`. `restartable` says whether another try may help.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar


class ExchangeError(Exception):
    """Base of the errors of `airflow_abs.exchange`."""

    restartable: ClassVar[bool] = False

    @staticmethod
    def from_json(value: Mapping[str, str]) -> ExchangeError:
        """An error of the tree from its type's name, its message and its path; of the base if the name is unknown."""
        kind = next((each for each in _tree(ExchangeError) if each.__name__ == value["type"]), ExchangeError)
        if issubclass(kind, StoredFileError):
            return kind(value["message"], path=value.get("path", ""))
        return kind(value["message"])


def _tree(kind: type[ExchangeError]) -> Iterator[type[ExchangeError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)


class ExchangeUnreachableError(ExchangeError):
    """The storage cannot be reached, read or written."""

    restartable = True


class StoredFileError(ExchangeError):
    """One stored file is unusable; `path` names it."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class MissingFileError(StoredFileError):
    """An expected file does not exist."""


class DamagedFileError(StoredFileError):
    """A file exists, but its content fails its checks."""


class IncompatibleFileError(StoredFileError):
    """A file was written in a format version that this version of the package does not read."""


class StaleManifestError(StoredFileError):
    """A manifest is intact, but belongs to another decision, region or subtask."""


class SourceNotFoundError(ExchangeError):
    """A source path, folder or pattern matches nothing."""


class CheckpointHeldError(ExchangeError):
    """Another query runs on the checkpoint of a stream."""

    restartable = True


class CheckpointMisfitError(ExchangeError):
    """A stream was changed so that it cannot resume from its checkpoint, or not into its sink."""


class LeaseLostError(ExchangeError):
    """Another process of the same task now supervises the stream's query."""


class PlanMismatchError(ExchangeError):
    """The DAG file has changed since the run was planned."""


class OutdatedInputError(ExchangeError):
    """Rows come from an outdated plan or decision, or from outdated rows of a producer."""


class ExpectationError(ExchangeError):
    """Rows of a vertex fail an expectation with `on_failure="fail"`."""


class CommitError(ExchangeError):
    """A sink was not published; the target is unchanged."""


class CommitConflictError(CommitError):
    """Others wrote data that this publication would replace unseen. Not retried: a person must decide."""


class SupersededError(CommitError):
    """The same run has published from a later plan or later rows, which must not be replaced."""


class TargetBusyError(CommitError):
    """Others hold the target's lock or keep writing to it; another try succeeds once they end."""

    restartable = True


class TargetExistsError(CommitError):
    """With mode `error`, the target already has data that this run did not publish."""
