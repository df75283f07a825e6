"""A server's token on every call of a channel: a fixed one, or the present one of a source, in the header it wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_abs.spark.access.tokens import TokenSource, current_token

AUTHORIZATION = "authorization"

_NO_TOKEN = "Getting metadata from plugin failed with error: "  # noqa: S105 - gRPC's words, a test reads them


def token_credentials(token: str | None, source: TokenSource | None, header: str | None = None) -> Any:
    """`grpc.CallCredentials`, or None without a token. gRPC sends them on secure channels only.

    `header` takes the token as it is; without one, `authorization` takes it as a bearer's. A source is asked by a
    thread of gRPC's, so no event loop waits; a call without a token is not sent.
    """
    import grpc

    if source is None and (token is None or header is None):
        return None if token is None else grpc.access_token_call_credentials(token)
    name, scheme = (AUTHORIZATION, "Bearer ") if header is None else (header, "")

    def give(_: Any, answer: Callable[[Any, Exception | None], None]) -> None:
        try:
            metadata = ((name, f"{scheme}{token if source is None else current_token(source)}"),)
        except Exception as error:  # whatever it is, the call must end
            answer((), error)
        else:
            answer(metadata, None)

    return grpc.metadata_call_credentials(give, name="airflow_abs")


def token_failure(error: Any) -> str | None:
    """Why a call had no token and was not sent, from its gRPC error; None if that is not what went wrong."""
    details = error.details() or ""
    return details.removeprefix(_NO_TOKEN) if details.startswith(_NO_TOKEN) else None


def token_is_refused(error: Any) -> bool:
    """Whether a server, or a proxy before it, does not take the token of a call."""
    import grpc

    return bool(error.code() == grpc.StatusCode.UNAUTHENTICATED)
