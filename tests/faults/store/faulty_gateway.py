"""The same faults in front of a real store: the gateway of `make test-s3`, which checks signatures and conditional
writes itself, keeps its objects on disk, and can be killed."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from testbed.places.s3_gateway import KEY, SECRET, S3Gateway
from tests.faults.store.faulty_s3 import FaultyS3, hang_up

SECONDS = 60.0
"""For an answer of the store."""
AWAY_SECONDS = 2.0


@dataclass
class FaultyGateway(FaultyS3):
    """What the store is asked goes through a door of the suite, as it was signed."""

    gateway: S3Gateway = field(kw_only=True)
    key: str = KEY
    secret: str = SECRET

    def start(self) -> None:
        self.gateway.server.start()
        super().start()

    def stop(self) -> None:
        super().stop()
        self.gateway.server.kill()

    def own_kinds(self) -> dict[str, Callable[[], bool]]:
        return {f"store: killed, back after {AWAY_SECONDS:g} s": self._kill}

    def _kill(self) -> bool:
        self.gateway.server.kill()
        time.sleep(AWAY_SECONDS)
        self.gateway.server.start()
        return True

    def make_bucket(self, name: str) -> None:
        self.gateway.make_bucket(name)

    def put(self, bucket: str, key: str, data: bytes) -> None:
        self.gateway.client().put_object(Bucket=bucket, Key=key, Body=data)

    def keys(self, bucket: str) -> list[str]:
        pages = self.gateway.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return sorted(each["Key"] for page in pages for each in page.get("Contents", ()))

    def read(self, bucket: str, key: str) -> bytes | None:
        client = self.gateway.client()
        try:
            return bytes(client.get_object(Bucket=bucket, Key=key)["Body"].read())
        except client.exceptions.NoSuchKey:
            return None

    def remove(self, bucket: str, key: str) -> None:
        self.gateway.client().delete_object(Bucket=bucket, Key=key)

    def _open_store(self) -> Callable[..., Iterable[bytes]]:
        return self._forward

    def _forward(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        connection = http.client.HTTPConnection(self.gateway.server.address, timeout=SECONDS)
        try:
            connection.putrequest(environ["REQUEST_METHOD"], environ["REQUEST_URI"], True, True)
            for name, value in _headers(environ):
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):  # it is away
            return hang_up(environ, start_response)
        finally:
            connection.close()
        dropped = {"connection", "transfer-encoding"}
        headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in dropped]
        start_response(f"{answer.status} {answer.reason}", headers)
        return [content]


def _headers(environ: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """As they came, for the signature covers some, the host's name among them."""
    for name, value in environ.items():
        if name.startswith("HTTP_") and name not in ("HTTP_EXPECT", "HTTP_CONNECTION"):
            yield name[5:].replace("_", "-").lower(), value
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            yield name.replace("_", "-").lower(), environ[name]
