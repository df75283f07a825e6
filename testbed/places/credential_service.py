"""What gives credentials to a program in a cloud: a stand-in on loopback, which hands out a store's only key.

The store and both SDKs are real; this is not. It gives no token of a session, since the store knows none. It answers,
as far as SDKs ask, like Amazon's

* Security Token Service: `AssumeRoleWithWebIdentity` for who shows the token that it expects,
* instance metadata service, version 2: the credentials of an instance's profile for who has fetched a session's token.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from airflow_abs.spark.server.free_ports import choose_free_ports
from testbed.places.served import LOOPBACK

ROLE, ROLE_ARN = "airflow-abs", "arn:aws:iam::000000000000:role/airflow-abs"
_SESSION = "a-session-of-the-stand-in"
_CREDENTIALS = "/latest/meta-data/iam/security-credentials/"
_STS = "https://sts.amazonaws.com/doc/2011-06-15/"


@dataclass(frozen=True, slots=True)
class CredentialService:
    """Hands out `key` and `secret` as temporary credentials; `given` counts what it was asked for with success."""

    key: str
    secret: str
    web_identity: str
    port: int
    given: Counter[str] = field(default_factory=Counter)

    @classmethod
    @contextmanager
    def started(cls, key: str, secret: str, web_identity: str) -> Iterator[CredentialService]:
        """It answers in the block."""
        (port,) = choose_free_ports(1)
        service = cls(key, secret, web_identity, port)
        with _Server(service) as server:
            thread = threading.Thread(target=server.serve_forever, name="credentials")
            thread.start()
            try:
                yield service
            finally:
                server.shutdown()
                thread.join()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def expires(self) -> str:
        return (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def profile(self) -> str:
        keys = {"AccessKeyId": self.key, "SecretAccessKey": self.secret, "Token": ""}
        return json.dumps({"Code": "Success", "Type": "AWS-HMAC", "Expiration": self.expires, **keys})

    def assumed(self) -> str:
        return (
            f'<AssumeRoleWithWebIdentityResponse xmlns="{_STS}"><AssumeRoleWithWebIdentityResult>'
            f"<Credentials><AccessKeyId>{self.key}</AccessKeyId><SecretAccessKey>{self.secret}</SecretAccessKey>"
            f"<SessionToken></SessionToken><Expiration>{self.expires}</Expiration></Credentials>"
            f"<AssumedRoleUser><Arn>{ROLE_ARN}/s</Arn><AssumedRoleId>R:s</AssumedRoleId></AssumedRoleUser>"
            "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        )


class _Server(ThreadingHTTPServer):
    def __init__(self, service: CredentialService) -> None:
        super().__init__((LOOPBACK, service.port), _Handler)
        self.service = service


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_PUT(self) -> None:
        self._read()
        if self.path == "/latest/api/token":
            self._answer(200, _SESSION, **{"X-aws-ec2-metadata-token-ttl-seconds": "21600"})
        else:
            self._answer(404)

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != _SESSION:
            self._answer(401)
        elif self.path == _CREDENTIALS:
            self._answer(200, ROLE)
        elif self.path == _CREDENTIALS + ROLE:
            self.server.service.given["instance profile"] += 1
            self._answer(200, self.server.service.profile())
        else:
            self._answer(404)

    def do_POST(self) -> None:
        asked = {name: values[0] for name, values in parse_qs(self._read()).items()}
        if (asked.get("Action"), asked.get("RoleArn")) != ("AssumeRoleWithWebIdentity", ROLE_ARN):
            self._answer(400, _refusal("AccessDenied", f"{asked.get('Action')} of {asked.get('RoleArn')}"))
        elif asked.get("WebIdentityToken") != self.server.service.web_identity:
            self._answer(400, _refusal("InvalidIdentityToken", "not the token of this role"))
        else:
            self.server.service.given["web identity"] += 1
            self._answer(200, self.server.service.assumed())

    def _read(self) -> str:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()

    def _answer(self, status: int, text: str = "", **headers: str) -> None:
        body = text.encode()
        self.send_response(status)
        kind = "text/xml" if text.startswith("<") else "text/plain"
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """To nowhere: lines hold tokens."""


def _refusal(code: str, message: str) -> str:
    error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
    return f'<ErrorResponse xmlns="{_STS}">{error}<RequestId>0</RequestId></ErrorResponse>'
