"""Tokens of a Spark server that expire: fetched when needed, kept in memory only, renewed before they expire.

A token source is a value: everybody in a process who has the same one shares its token.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from airflow_abs.spark.errors import TokenUnavailableError

AIRFLOWS_VARIABLES = ("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_", "_AIRFLOW_")
"""How the environment variables begin that may hold secrets of Airflow's: for no program but Airflow's own."""

LIFETIME = 900.0
"""Seconds that a token is good for unless it says so."""

ANSWER_SECONDS = 30.0
"""How long a source may take."""
# Of its time a tenth, at most two minutes: clocks differ, and a call that begins with a token has to arrive with it.
_RENEW_FRACTION = 0.1
_RENEW_SECONDS = 120.0
# A token this fresh is not renewed because a server refuses it: many calls are refused at once.
_FRESH_SECONDS = 10.0
# What the programs of clouds print, Amazon's `get-session-endpoint` among them.
_TOKEN_KEYS = ("access_token", "accessToken", "token", "authToken", "AuthToken")
_END_KEYS = ("expires_on", "expiry", "authTokenExpiresAt", "AuthTokenExpirationTime")
_LONGEST_QUOTE = 200


class TokenSource(Protocol):
    """Where tokens come from. Hashable, compared by value; its `repr` shows no secret."""

    @property
    def lifetime(self) -> float:
        """Seconds that a token is good for, where it does not say so itself."""
        ...

    def fetch(self) -> object:
        """A new token, as text or as what `read_token` understands. May block for some seconds."""
        ...


@dataclass(frozen=True, slots=True)
class TokenCommand:
    """A program and its arguments, which prints a token or a JSON object with one. No shell is involved."""

    command: tuple[str, ...] = field(repr=False)
    lifetime: float = LIFETIME

    def fetch(self) -> object:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(AIRFLOWS_VARIABLES)}
        try:
            done = subprocess.run(
                self.command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=environment,
                timeout=ANSWER_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            found = (
                f"still running after {ANSWER_SECONDS:g} s" if isinstance(error, subprocess.TimeoutExpired) else error
            )
            raise _unavailable(f"token_command {self.command[0]!r}", f"{found}") from None
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["nothing"])[-1][:_LONGEST_QUOTE]
            raise _unavailable(f"token_command {self.command[0]!r}", f"exit status {done.returncode}, it says: {said}")
        return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class TokenFunction:
    """A function of an installed module, "package.module.function", called without arguments."""

    name: str
    lifetime: float = LIFETIME

    def fetch(self) -> object:
        module, _, function = self.name.rpartition(".")
        try:
            return getattr(importlib.import_module(module), function)()
        except Exception as error:  # not our code: whatever it raises, there is no token
            # Only the type: its text may quote what it was given.
            raise _unavailable(f"token_provider {self.name!r}", f"it raised {type(error).__name__}") from None


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `ends` in seconds since the epoch, None where it does not say."""

    text: str = field(repr=False)
    ends: float | None = None


@dataclass(frozen=True, slots=True)
class _Kept:
    text: str = field(repr=False)
    fetched: float
    renew: float


_kept: dict[TokenSource, _Kept] = {}
_fetching: dict[TokenSource, threading.Lock] = {}


def current_token(source: TokenSource) -> str:
    """A valid token; blocks while fetching, once for all threads of a process.

    Raises:
        TokenUnavailableError: the source gives none.
    """
    with _fetching.setdefault(source, threading.Lock()):
        kept = _kept.get(source)
        if kept is None or time.time() >= kept.renew:
            now = time.time()
            token = read_token(source.fetch(), now)
            ends = token.ends if token.ends is not None else now + source.lifetime
            margin = min(_RENEW_SECONDS, _RENEW_FRACTION * max(ends - now, 0.0))
            kept = _kept[source] = _Kept(token.text, now, ends - margin)
        return kept.text


def refuse_token(source: TokenSource) -> None:
    """The server refuses what `current_token` gave: the next call has a new one, unless that one was new."""
    with _fetching.setdefault(source, threading.Lock()):
        kept = _kept.get(source)
        if kept is not None and time.time() - kept.fetched > _FRESH_SECONDS:
            del _kept[source]


def read_token(answer: object, now: float) -> Token:
    """What a program printed or a function returned: text, or a mapping or JSON object with `access_token`
    (`accessToken`, `token`, `authToken`) and maybe its end: `expires_in` (seconds), `expires_on`, `expiry` or
    `authTokenExpiresAt` (epoch seconds or ISO 8601).

    Raises:
        TokenUnavailableError: there is no token in it. The message shows nothing of it.
    """
    values = _as_mapping(answer)
    text = answer if values is None else next((values[key] for key in _TOKEN_KEYS if values.get(key)), None)
    if not isinstance(text, str) or not text.isascii() or not text.isprintable() or not text or " " in text:
        raise _unavailable("token source", "its answer is not a token; expected one word, or JSON with access_token")
    try:
        return Token(text, _end(values or {}, now))
    except (ValueError, TypeError):
        raise _unavailable(
            "token source", "the expiry of its token (expires_in, expires_on or expiry) is neither seconds nor ISO 8601"
        ) from None


def _as_mapping(answer: object) -> Mapping[str, Any] | None:
    if isinstance(answer, str) and answer.startswith("{"):
        try:
            answer = json.loads(answer)
        except ValueError:
            return None
    return answer if isinstance(answer, Mapping) else None


def _end(values: Mapping[str, Any], now: float) -> float | None:
    if values.get("expires_in") is not None:
        return now + float(values["expires_in"])
    end = next((values[key] for key in _END_KEYS if values.get(key) is not None), None)
    if end is None or isinstance(end, int | float):
        return end
    if isinstance(end, str):
        with suppress(ValueError):
            return float(end)
    return datetime.fromisoformat(str(end)).astimezone().timestamp()


def _unavailable(who: str, found: str) -> TokenUnavailableError:
    return TokenUnavailableError(
        f"{who} gave no token for the Spark server: {found}; call it on this host as the user that runs Airflow, and "
        "correct the extra of the connection"
    )
