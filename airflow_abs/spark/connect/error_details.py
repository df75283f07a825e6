"""From a gRPC error to one of ours: error class, message and chain of causes, asked from the server where needed.

Where the class comes from, in this order: the details that the server keeps for each error (`FetchErrorDetails`), the
error info in the call's metadata, the leading `[CLASS]` of the message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_abs.spark.access.credentials import token_failure
from airflow_abs.spark.connect.classification import classify, lead_with_users_words, leading_class
from airflow_abs.spark.errors import Cause, SparkOperationError

_DETAILS_SECONDS = 10.0
_LONGEST_CHAIN = 20
_LOST_CONNECTION = re.compile(
    r"RST_STREAM|unexpected EOS|Stream removed|[Cc]onnection reset|GOAWAY|[Ss]ocket closed|[Kk]eepalive|Broken pipe"
)


@dataclass(frozen=True, slots=True)
class FailedCall:
    """What is needed to ask the server about an error: only the same user and session may."""

    stub: Any
    user_context: Any
    session_id: str
    headers: tuple[tuple[str, str], ...] = ()
    client_type: str = ""


def is_connection_lost(error: Any) -> bool:
    """Whether a gRPC error says nothing about the operation, only that the way to the server broke."""
    import grpc

    if error.code() == grpc.StatusCode.UNAVAILABLE:
        return token_failure(error) is None
    carries_details = _error_info(error) is not None
    return not carries_details and _LOST_CONNECTION.search(error.details() or "") is not None


async def read_error(call: FailedCall, error: Any) -> SparkOperationError:
    """The typed error behind a gRPC error that the server raised."""
    info = _error_info(error)
    causes: tuple[Cause, ...] = ()
    error_class = info.get("errorClass", "") if info else ""
    if info and info.get("errorId"):
        fetched_class, causes = await _fetch_details(call, info["errorId"])
        error_class = fetched_class or error_class
    message = causes[0].message if causes else (error.details() or error.code().name)
    if info and not causes:
        causes = tuple(Cause(name, message) for name in json.loads(info.get("classes", "[]"))[:1])
    return build_error(error_class or leading_class(message), message, causes)


def build_error(error_class: str, message: str, causes: Sequence[Cause]) -> SparkOperationError:
    """The error of the right type for these, with the user's own words first in its message."""
    kind = classify(error_class, message, causes)
    return kind(lead_with_users_words(message, causes), error_class=error_class, causes=causes)


def _error_info(error: Any) -> dict[str, str] | None:
    """The metadata of the ErrorInfo that came with the call, or None."""
    from google.rpc import error_details_pb2, status_pb2

    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                    info = error_details_pb2.ErrorInfo()
                    detail.Unpack(info)
                    return dict(info.metadata)
    return None


async def _fetch_details(call: FailedCall, error_id: str) -> tuple[str, tuple[Cause, ...]]:
    """(error class of the outermost error or "", chain from it to the root); ("", ()) when the server is gone."""
    import grpc

    from airflow_abs.spark.connect.protocol import protos

    request = protos().FetchErrorDetailsRequest(
        session_id=call.session_id, error_id=error_id, user_context=call.user_context, client_type=call.client_type
    )
    try:
        response = await call.stub.FetchErrorDetails(request, timeout=_DETAILS_SECONDS, metadata=call.headers)
    except grpc.RpcError:
        return "", ()  # the error itself matters more than why its details are missing
    if not response.HasField("root_error_idx"):
        return "", ()
    chain = tuple(_chain(response.errors, response.root_error_idx))
    outermost = response.errors[response.root_error_idx].spark_throwable
    return (outermost.error_class if outermost.HasField("error_class") else ""), chain


def _chain(errors: Sequence[Any], index: int) -> Iterator[Cause]:
    for _ in range(_LONGEST_CHAIN):
        error = errors[index]
        throwable = error.spark_throwable
        java_class = error.error_type_hierarchy[0] if error.error_type_hierarchy else ""
        yield Cause(throwable.error_class if throwable.HasField("error_class") else java_class, error.message)
        if not error.HasField("cause_idx"):
            return
        index = error.cause_idx
