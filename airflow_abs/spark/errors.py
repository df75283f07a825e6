"""Errors of Spark operations::

    SparkOperationError
    ├── UserCodeError                 a wrong column, a bad cast, an exception in a UDF: the same again, never restarted
    ├── InputLostError                a file that should be read is gone or damaged: its producer must run again
    ├── SourceChangedError            a file of a source is another one than was listed, or is gone: never restarted
    ├── RecomputationError            lost input was not recomputed to the same rows: never restarted
    ├── SubtaskOutOfMemoryError       restarted in smaller pieces
    │   └── UnsplittableMemoryError   the smallest piece still was too large: never restarted
    ├── ResourcesError                disk full, result too large, no executor: restarted, with a limit
    ├── TransientSparkError           network, server restarted, session gone, Python worker died: restarted
    │   ├── OperationTakenOverError   another process awaits this operation now: stop quietly, it is in good hands
    │   └── OperationTimeoutError     took longer than it was given; it was interrupted
    ├── OperationCancelledError       interrupted from outside: never restarted
    ├── ConnectServerUnreachableError nothing answers there: restarted
    ├── ConnectAccessDeniedError      the server refuses the token: never restarted
    ├── TokenUnavailableError         the connection's source of tokens gives none: restarted
    └── VersionMismatchError          server and client differ: never restarted

The server returns every error with the same gRPC status, so Spark's error class and the chain of causes decide the type
(`classification.py`); `error_details.py` reads them from the wire.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Cause:
    """One link of the chain: the Java or Spark class of an error and its message."""

    error_class: str
    message: str


class SparkOperationError(Exception):
    """A Spark operation failed. `str()` is the message, which starts with the user's own error.

    `error_class` is Spark's ("UNRESOLVED_COLUMN.WITH_SUGGESTION"), or "" where Spark gives none.
    `causes` runs from the outermost error to the root.
    """

    restartable: ClassVar[bool] = False

    def __init__(self, message: str, *, error_class: str = "", causes: Sequence[Cause] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.error_class = error_class
        self.causes = tuple(causes)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.error_class, self.causes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SparkOperationError) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((type(self), self.message, self.error_class, self.causes))

    def with_context(self, context: str) -> SparkOperationError:
        """The same error with a line on where it happened after the first line of its message."""
        first, newline, rest = self.message.partition("\n")
        message = f"{first}\n  {context}{newline}{rest}"
        return type(self)(message, error_class=self.error_class, causes=self.causes)

    def to_json(self) -> dict[str, Any]:
        """{"type": str, "error_class": str, "message": str, "causes": [{"class": str, "message": str}]}."""
        return {
            "type": type(self).__name__,
            "error_class": self.error_class,
            "message": self.message,
            "causes": [{"class": cause.error_class, "message": cause.message} for cause in self.causes],
        }

    @staticmethod
    def from_json(payload: dict[str, Any]) -> SparkOperationError:
        """The error that `to_json` wrote.

        Raises:
            ValueError: `payload` is not one.
        """
        try:
            kind = _TYPES[payload["type"]]
            causes = [Cause(cause["class"], cause["message"]) for cause in payload["causes"]]
            return kind(payload["message"], error_class=payload["error_class"], causes=causes)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"not an error of a Spark operation: found {payload!r}, expected type, error_class, message and "
                f"causes, type one of {', '.join(sorted(_TYPES))}"
            ) from error


def _rebuild(
    kind: type[SparkOperationError], message: str, error_class: str, causes: tuple[Cause, ...]
) -> SparkOperationError:
    return kind(message, error_class=error_class, causes=causes)


class UserCodeError(SparkOperationError):
    """The user's transform or data is at fault."""


class InputLostError(SparkOperationError):
    """A file that should be read is missing or damaged."""

    restartable = True

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths that the messages name, in order, each once; may be empty."""
        texts = [self.message, *(cause.message for cause in self.causes)]
        return tuple(dict.fromkeys(path for text in texts for path in _PATHS.findall(text)))


class SubtaskOutOfMemoryError(SparkOperationError):
    """A JVM or a Python worker ran out of memory."""

    restartable = True


class UnsplittableMemoryError(SubtaskOutOfMemoryError):
    """Out of memory, and the range cannot be cut further."""

    restartable = False


class SourceChangedError(SparkOperationError):
    """A source's files have changed since `plan` or `decide` listed them."""


class RecomputationError(SparkOperationError):
    """Rerunning its producer does not recompute lost input, because it gives other rows."""


class ResourcesError(SparkOperationError):
    """The cluster lacked something other than memory: disk, slots, room for the result."""

    restartable = True


class TransientSparkError(SparkOperationError):
    """The work itself is fine; another try may succeed."""

    restartable = True


class OperationTakenOverError(TransientSparkError):
    """Another process attached to the same operation; this one must stop silently."""


class OperationTimeoutError(TransientSparkError):
    """The operation exceeded its time limit and was interrupted."""


class OperationCancelledError(SparkOperationError):
    """The operation was interrupted."""


class ConnectServerUnreachableError(SparkOperationError):
    """No Spark Connect server answers."""

    restartable = True


class ConnectAccessDeniedError(SparkOperationError):
    """The server refuses access."""


class TokenUnavailableError(SparkOperationError):
    """The connection's token source returned no token."""

    restartable = True


class VersionMismatchError(SparkOperationError):
    """Server and client are incompatible."""


_TYPES: dict[str, type[SparkOperationError]] = {
    kind.__name__: kind
    for kind in (
        SparkOperationError,
        UserCodeError,
        InputLostError,
        SourceChangedError,
        RecomputationError,
        UnsplittableMemoryError,
        SubtaskOutOfMemoryError,
        ResourcesError,
        TransientSparkError,
        OperationTakenOverError,
        OperationTimeoutError,
        OperationCancelledError,
        ConnectServerUnreachableError,
        ConnectAccessDeniedError,
        TokenUnavailableError,
        VersionMismatchError,
    )
}
_PATHS = re.compile(r"(?:[a-z][a-z0-9+.-]*:/{1,3}|(?<=[\s'\"`])/)[^\s'\"`,;\]]*[^\s'\"`,;:.\]]")


def would_happen_again(name: str) -> bool:
    """Whether an error of this type's name is one of data or code: another machine would end the same way."""
    kind = _TYPES.get(name)
    return kind is not None and not kind.restartable and kind is not OperationCancelledError
