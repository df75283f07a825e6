"""The S3 server of the tests, which answers late, wrongly, in part or not at all when it is told to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.s3_server import Request, S3Server

WRITES = frozenset({"PUT", "COPY", "DELETE", "DELETE MANY"})
EVERYTHING = WRITES | {"GET", "HEAD", "LIST"}
SLOW_SECONDS = 0.5


@dataclass(slots=True)
class Disturbance:
    """What becomes of the next requests of some kinds: `times` of them, or all for so many `seconds`; `hits` counts."""

    what: str
    kinds: frozenset[str]
    times: int = 0
    seconds: float = 0.0
    hits: int = 0


@dataclass
class FaultyS3(S3Server):
    """`disturb` causes one disturbance; it is over when it has met its requests, or its time is up."""

    key: str = "k"
    secret: str = "s"
    _disturbance: Disturbance | None = None
    _until: float = 0.0
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def disturb(self, disturbance: Disturbance) -> None:
        with self._turn:
            self._disturbance = disturbance
            self._until = time.monotonic() + disturbance.seconds

    def calm(self) -> None:
        with self._turn:
            self._disturbance = None

    def own_kinds(self) -> dict[str, Callable[[], bool]]:
        """Faults that only a store of this kind has."""
        return {}

    def keys(self, bucket: str) -> list[str]:
        return sorted(self._backend().buckets[bucket].keys.keys())

    def read(self, bucket: str, key: str) -> bytes | None:
        """An object without any request; None if there is none."""
        found = self._backend().buckets[bucket].keys.get(key)
        return None if found is None else bytes(found.value)

    def remove(self, bucket: str, key: str) -> None:
        self._backend().delete_object(bucket, key)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        match self._of(S3Server.request_of(environ)):
            case "503" | "500" as status:
                return self._refuse(environ, start_response, status)
            case "slow":
                time.sleep(SLOW_SECONDS)
            case "request lost":
                return hang_up(environ, start_response)
            case "answer lost":
                b"".join(super().__call__(environ, lambda *_: None))
                return hang_up(environ, start_response)
            case "body cut":
                return _cut(super().__call__, environ, start_response)
        return super().__call__(environ, start_response)

    def _of(self, request: Request) -> str | None:
        with self._turn:
            found = self._disturbance
            if found is None or request.kind not in found.kinds:
                return None
            if found.seconds and time.monotonic() > self._until:
                return None
            if found.times and found.hits >= found.times:
                return None
            found.hits += 1
            return found.what

    @staticmethod
    def _refuse(environ: dict[str, Any], start_response: Callable[..., Any], status: str) -> list[bytes]:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        code = {"503": "SlowDown", "500": "InternalError"}[status]
        body = f"<Error><Code>{code}</Code><Message>said by the test</Message></Error>".encode()
        if environ["REQUEST_METHOD"] == "HEAD":
            body = b""
        start_response(f"{status} {code}", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]


def hang_up(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """No answer at all."""
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]


def _cut(answer: Callable[..., Any], environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Half of what the headers promise."""
    body = b"".join(answer(environ, start_response))
    return [body[: len(body) // 2]]
