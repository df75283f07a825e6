"""The page as one document: style and script are inlined, nothing is fetched from anywhere else."""

from __future__ import annotations

import html
import secrets
from functools import cache
from importlib.resources import files

from fastapi.responses import HTMLResponse

_STYLES = ("style.css", "repair/repair.css")
_SCRIPTS = (
    "theme.js",
    "dom.js",
    "states.js",
    "graph.js",
    "timeline.js",
    "strip.js",
    "history.js",
    "repair/repair.js",
    "region.js",
    "main.js",
)
_STREAM_SCRIPTS = ("theme.js", "dom.js", "timeline.js", "streams/life.js", "streams/batches.js", "streams/stream.js")
_TITLES = {401: "Not signed in", 403: "Not allowed", 404: "Not found"}
_WHAT_TO_DO = {
    401: "Sign in to Airflow, then open this tab again.",
    403: "You may not see this DAG's runs. Ask your Airflow administrator for the right to read it.",
    404: "It may have been deleted, or the address is mistyped.",
}


def plan_page() -> HTMLResponse:
    """The page that draws a run; which one it reads from its own address."""
    return _respond(_document("page.html").replace("{{scripts}}", _joined(_SCRIPTS)), 200)


def stream_page() -> HTMLResponse:
    """The page that draws the streams of a run; which one it reads from its own address."""
    styles = _joined((*_STYLES, "streams/stream.css"))
    body = _text("streams/stream.html").replace("{{styles}}", styles)
    return _respond(body.replace("{{scripts}}", _joined(_STREAM_SCRIPTS)), 200)


def error_page(status: int, detail: str) -> HTMLResponse:
    """Why there is nothing to see, and what to do."""
    title = _TITLES.get(status, "Something went wrong")
    body = _document("error.html").replace("{{title}}", html.escape(f"{title} ({status})"))
    told = f"{detail} {_WHAT_TO_DO.get(status, '')}".strip()
    body = body.replace("{{detail}}", html.escape(told)).replace("{{scripts}}", _joined(_SCRIPTS[:1]))
    return _respond(body, status)


def _respond(body: str, status: int) -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
    }
    return HTMLResponse(body.replace("{{nonce}}", nonce), status, headers)


@cache
def _document(name: str) -> str:
    return _text(name).replace("{{styles}}", _joined(_STYLES))


@cache
def _joined(names: tuple[str, ...]) -> str:
    return "\n".join(_text(name) for name in names)


def _text(name: str) -> str:
    return (files("airflow_abs.plugins") / "page" / name).read_text("utf-8")
