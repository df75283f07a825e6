"""What clients of storage raise when it does not answer, and what an object store says with a status code."""

from __future__ import annotations

import errno
import sys
from typing import Any, NoReturn

from airflow_abs.exchange.errors import ExchangeUnreachableError


def storage_errors() -> tuple[type[Exception], ...]:
    """For `except`: OSError, and botocore's own tree (no route, no credentials) if somebody has loaded it."""
    botocore: Any = sys.modules.get("botocore.exceptions")
    return (OSError, botocore.BotoCoreError) if botocore else (OSError,)


def reason_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def raise_if_throttled(where: object, error: Exception) -> None:
    """Nothing is wrong with the path then: the client has tried again and again, and got 503 every time.

    Raises:
        ExchangeUnreachableError: the store asks for fewer requests.
    """
    if isinstance(error, OSError) and error.errno == errno.EBUSY:
        raise ExchangeUnreachableError(
            f"{where}: the storage answers 503 (too many requests), even after all retries of its client "
            f"({reason_of(error)}); run it again later, or let fewer subtasks run at once"
        ) from error


def raise_unlisted(where: object, error: Exception) -> NoReturn:
    """A path that clients of storage could not list.

    Raises:
        ExchangeUnreachableError: always, with what they said.
    """
    raise_if_throttled(where, error)
    raise ExchangeUnreachableError(
        f"{where}: cannot be listed ({reason_of(error)}); check the path and the rights"
    ) from error


def raise_unread(where: object, error: Exception) -> NoReturn:
    """A file that clients of storage could not read.

    Raises:
        ExchangeUnreachableError: always, with what they said.
    """
    raise_if_throttled(where, error)
    raise ExchangeUnreachableError(
        f"{where}: cannot be read ({reason_of(error)}); check that it is a readable file"
    ) from error


def is_taken(error: OSError) -> bool:
    """Whether a conditional put was refused for the object that is there: 412, of some stores without detail."""
    return isinstance(error, FileExistsError) or _code(error) in ("PreconditionFailed", "412")


def is_contended(error: OSError) -> bool:
    """Whether an exclusive put met another one that was still under way (409): to be sent again."""
    return _code(error) in ("ConditionalRequestConflict", "409")


def _code(error: OSError) -> str:
    """The error code of S3's answer, "" without one."""
    response = getattr(error.__cause__, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""
