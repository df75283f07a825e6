"""An S3 server of the test's own: moto behind a door that notes every request and can turn some away."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

REGION = "us-east-1"
ACCOUNT = "123456789012"


@dataclass(frozen=True, slots=True)
class Request:
    """`kind` is LIST, HEAD, GET, PUT, COPY, DELETE, DELETE MANY or BUCKET; `key` is "" for a whole bucket."""

    kind: str
    bucket: str
    key: str


@dataclass
class S3Server:
    """Listens on a free port of the loopback from `start` to `stop`; `requests` are those since the last `forget`."""

    requests: list[Request] = field(default_factory=list)
    _refuses: Callable[[Request], bool] = field(default=lambda request: False)
    _refusal: tuple[int, str] = (503, "SlowDown")
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _exclusive: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        from moto.moto_server.werkzeug_app import MotoRequestHandler
        from werkzeug.serving import make_server

        class KeepAlive(MotoRequestHandler):
            protocol_version = "HTTP/1.0"

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._store = self._open_store()
        self._server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=KeepAlive)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="s3-server", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def make_bucket(self, name: str) -> None:
        self._backend().create_bucket(name, REGION)

    def put(self, bucket: str, key: str, data: bytes) -> None:
        """Put an object without any request."""
        self._backend().put_object(bucket, key, data)

    def forget(self) -> None:
        """Start counting again, and answer everything."""
        with self._lock:
            self.requests.clear()
            self._refuses = lambda request: False

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(Counter(request.kind for request in self.requests))

    def answer(self, status: int, code: str, kinds: Iterable[str], times: int | None) -> None:
        """Answer the first `times` requests of each kind and key with an error of S3's; all of them if it is None."""
        wanted, seen = set(kinds), Counter[Request]()

        def refuses(request: Request) -> bool:
            if request.kind not in wanted:
                return False
            seen[request] += 1
            return times is None or seen[request] <= times

        self._refuses, self._refusal = refuses, (status, code)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        request = _request_of(environ)
        with self._lock:
            self.requests.append(request)
            refused = self._refuses(request)
        if not refused:
            return self._store(environ, start_response)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        status, code = self._refusal
        text = f"<Error><Code>{code}</Code><Message>said by the test</Message></Error>"
        body = b"" if request.kind == "HEAD" else text.encode()
        start_response(f"{status} {code}", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]

    def _open_store(self) -> Callable[..., Iterable[bytes]]:
        """What is behind the door, as WSGI."""
        from moto.moto_server.werkzeug_app import create_backend_app

        moto = create_backend_app("s3")

        def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            if environ.keys() & {"HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"}:
                with self._exclusive:  # which S3 promises, and moto's look and put are not
                    return moto(environ, start_response)
            return moto(environ, start_response)

        return answer

    @staticmethod
    def request_of(environ: dict[str, Any]) -> Request:
        return _request_of(environ)

    @staticmethod
    def _backend() -> Any:
        from moto.s3.models import s3_backends

        return s3_backends[ACCOUNT]["aws"]


def _request_of(environ: dict[str, Any]) -> Request:
    bucket, _, key = environ["PATH_INFO"].lstrip("/").partition("/")
    method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
    if "list-type" in query:
        return Request("LIST", bucket, "")
    if method == "POST" and "delete" in query:
        return Request("DELETE MANY", bucket, "")
    if not key:
        return Request("BUCKET", bucket, "")
    return Request("COPY" if "HTTP_X_AMZ_COPY_SOURCE" in environ else method, bucket, key)
