from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from airflow_abs.demo.airflow_api import AirflowApi, AirflowApiError

Answer = tuple[int, Mapping[str, Any]]
TOKEN: Answer = (201, {"access_token": "t"})
LOCKED: Answer = (500, {"detail": {"reason": "Database error", "message": "Serious error"}})


@contextmanager
def api_that_answers(*answers: Answer) -> Iterator[tuple[AirflowApi, list[str]]]:
    """A server that gives these answers, one after the other, and what it was asked for: no Airflow can be told to be
    just then in the middle of something."""
    left, asked = list(answers), list[str]()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            asked.append(f"{self.command} {self.path}")
            status, content = left.pop(0)
            body = json.dumps(content, separators=(",", ":")).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PATCH = answer  # noqa: N815 (the names that it looks for)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        api = AirflowApi(f"http://127.0.0.1:{server.server_port}", timeout=5)
        try:
            yield api, asked
        finally:
            api.close()
            server.shutdown()
            thread.join()


def test_a_server_that_is_not_there_is_told() -> None:
    api = AirflowApi("http://127.0.0.1:9", timeout=5)
    try:
        with pytest.raises(
            AirflowApiError, match=r"GET /importErrors at http://127.0.0.1:9: no answer: .*is Airflow up\?"
        ):
            api.import_errors()
    finally:
        api.close()


def test_what_met_another_writer_in_the_database_is_asked_once_more() -> None:
    with api_that_answers(TOKEN, LOCKED, (200, {"state": "failed"})) as (api, asked):
        assert api.request("PATCH", "/dags/d") == {"state": "failed"}
        assert asked == ["GET /auth/token", *["PATCH /api/v2/dags/d"] * 2]


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([LOCKED, LOCKED], "Database error"),
        ([(500, {"detail": "broken"})], "broken"),
        ([(404, {"detail": "no"})], "no"),
    ],
    ids=["again", "another error", "not there"],
)
def test_every_other_refusal_is_told(answers: list[Answer], told: str) -> None:
    with api_that_answers(TOKEN, *answers) as (api, asked):
        with pytest.raises(AirflowApiError, match=rf"PATCH /dags/d at http://.*: status {answers[0][0]}: .*{told}"):
            api.request("PATCH", "/dags/d")
        assert len(asked) == 1 + len(answers)
