"""The client credentials grant, asked of a real HTTP server."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from airflow_abs.spark.access.oauth import ClientCredentials
from airflow_abs.spark.access.tokens import current_token
from airflow_abs.spark.errors import TokenUnavailableError


@dataclass(slots=True)
class TokenService:
    """Answers with `status`, gives token 1, 2, ..., and remembers what was asked: authorization and form."""

    url: str = ""
    status: int = 200
    seconds: int = 3600
    asked: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"])).decode()
        self.asked.append((handler.headers["authorization"], parse_qs(body)))
        handler.send_response(self.status)
        handler.send_header("location", f"{self.url}/elsewhere")
        handler.end_headers()
        token = {"access_token": f"token-{len(self.asked)}", "expires_in": self.seconds}
        handler.wfile.write(json.dumps(token).encode())


@pytest.fixture
def service() -> Iterator[TokenService]:
    known = TokenService()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            known.answer(self)

        def do_GET(self) -> None:
            known.asked.append(("GET", {}))

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    known.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield known
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def principal(service: TokenService) -> ClientCredentials:
    return ClientCredentials(f"{service.url}/oidc/v1/token", "app:1", "s3c%ret", "all-apis")


def test_id_and_secret_get_a_token_which_is_kept_until_shortly_before_its_end(
    service: TokenService, principal: ClientCredentials
) -> None:
    assert [current_token(principal), current_token(principal)] == ["token-1", "token-1"]
    service.seconds = 0
    other = replace(principal, scope="other")
    assert [current_token(other), current_token(other)] == ["token-2", "token-3"]
    known = base64.b64encode(b"app%3A1:s3c%25ret").decode()
    assert service.asked[0] == (f"Basic {known}", {"grant_type": ["client_credentials"], "scope": ["all-apis"]})


@pytest.mark.parametrize("status", [401, 500, 302, 307])
def test_any_other_answer_is_an_error_and_the_secret_goes_nowhere_else(
    service: TokenService, principal: ClientCredentials, status: int
) -> None:
    service.status = status
    with pytest.raises(TokenUnavailableError) as caught:
        current_token(principal)
    assert str(caught.value) == (
        f"{principal.url} gave no token for the Spark server: it answers {status} to client 'app:1'; correct host, "
        "login or password of the connection"
    )
    assert len(service.asked) == 1
    assert "s3c%ret" not in f"{principal!r}"


def test_a_service_that_is_not_there_is_named(principal: ClientCredentials) -> None:
    nowhere = replace(principal, url="http://127.0.0.1:9/token")
    with pytest.raises(
        TokenUnavailableError, match=r"^http://127\.0\.0\.1:9/token gave no token for the Spark server: "
    ):
        current_token(nowhere)
