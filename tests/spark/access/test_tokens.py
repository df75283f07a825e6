"""Tokens of programs and functions: kept while they are good, had anew before their end, never shown."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_abs.spark.access import tokens
from airflow_abs.spark.access.tokens import (
    Token,
    TokenCommand,
    TokenFunction,
    TokenSource,
    current_token,
    read_token,
    refuse_token,
)
from airflow_abs.spark.errors import TokenUnavailableError

NOW = 1_800_000_000.0


def counting(folder: Path, answer: str = "t$n", lifetime: float = 900.0) -> TokenCommand:
    """A program that says a new token each time, and how often it was called in a file."""
    script = f'n=$(($(cat "$0" 2>/dev/null || echo 0) + 1)); echo $n > "$0"; echo "{answer}"'
    return TokenCommand(("sh", "-c", script, str(folder / "calls")), lifetime)


@pytest.mark.parametrize(
    ("answer", "token"),
    [
        ("abc", Token("abc")),
        ('{"access_token": "abc", "expires_in": 60}', Token("abc", NOW + 60)),
        ('{"accessToken": "abc", "expires_on": 1800000060}', Token("abc", NOW + 60)),
        ('{"token": "abc", "expiry": "2027-01-15T08:01:00Z"}', Token("abc", NOW + 60)),
        ({"access_token": "abc", "expires_in": 60}, Token("abc", NOW + 60)),
        (
            '{"endpoint": "x", "authToken": "abc", "authTokenExpiresAt": "2027-01-15T08:01:00+00:00"}',
            Token("abc", NOW + 60),
        ),
        ('{"AuthToken": "abc", "AuthTokenExpirationTime": 1800000060.5}', Token("abc", NOW + 60.5)),
        ({"authToken": "abc", "authTokenExpiresAt": datetime(2027, 1, 15, 8, 1, tzinfo=UTC)}, Token("abc", NOW + 60)),
        ({"access_token": "abc", "expires_on": "1800000060"}, Token("abc", NOW + 60)),
    ],
)
def test_what_programs_of_clouds_print_is_understood(answer: object, token: Token) -> None:
    assert read_token(answer, NOW) == token


@pytest.mark.parametrize("answer", ["", "two words", "{not json", '{"message": "no s3cret"}', None, "käse", "a\nb"])
def test_an_answer_without_a_token_is_refused_and_not_shown(answer: object) -> None:
    with pytest.raises(TokenUnavailableError) as caught:
        read_token(answer, NOW)
    assert str(caught.value) == (
        "token source gave no token for the Spark server: its answer is not a token; expected one word, or JSON with "
        "access_token; call it on this host as the user that runs Airflow, and correct the extra of the "
        "connection"
    )


def test_an_end_that_is_no_time_is_refused() -> None:
    with pytest.raises(TokenUnavailableError, match="neither seconds nor ISO 8601"):
        read_token({"token": "s3cret", "expires_in": "soon"}, NOW)


def test_a_token_is_kept_while_it_is_good_and_shared_by_equal_sources(tmp_path: Path) -> None:
    assert current_token(counting(tmp_path)) == "t1"
    assert current_token(counting(tmp_path)) == "t1"
    assert (tmp_path / "calls").read_text() == "1\n"


def test_a_token_is_had_anew_before_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = counting(tmp_path, lifetime=100.0)
    started = time.time()
    assert current_token(source) == "t1"
    monkeypatch.setattr(tokens.time, "time", lambda: started + 89)
    assert current_token(source) == "t1"
    monkeypatch.setattr(tokens.time, "time", lambda: started + 95)  # of 100 s a tenth
    assert current_token(source) == "t2"


def test_its_own_end_counts_for_more_than_what_was_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = counting(tmp_path, r"{\"access_token\": \"t$n\", \"expires_in\": 50}", lifetime=900.0)
    started = time.time()
    assert current_token(source) == "t1"
    monkeypatch.setattr(tokens.time, "time", lambda: started + 49)
    assert current_token(source) == "t2"


def test_threads_that_need_a_token_at_once_have_it_from_one_call(tmp_path: Path) -> None:
    source, found = counting(tmp_path), list[str]()
    threads = [threading.Thread(target=lambda: found.append(current_token(source))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == ["t1"] * 8


def test_a_refused_token_is_had_anew_unless_it_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = counting(tmp_path)
    assert current_token(source) == "t1"
    refuse_token(source)
    assert current_token(source) == "t1"  # a hundred calls that are refused at once ask for one new token
    later = time.time() + 11
    monkeypatch.setattr(tokens.time, "time", lambda: later)
    refuse_token(source)
    assert current_token(source) == "t2"


def test_a_function_of_an_installed_module_gives_a_token() -> None:
    assert current_token(TokenFunction("platform.python_implementation")) == sys.implementation.name.replace("cp", "CP")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (TokenCommand(("/no/such/program", "--key=s3cret")), "token_command '/no/such/program' gave no token"),
        (
            TokenCommand(("sh", "-c", "echo s3cret; echo log in first >&2; exit 1")),
            "exit status 1, it says: log in first;",
        ),
        (
            TokenFunction("json.loads"),
            "token_provider 'json.loads' gave no token for the Spark server: it raised TypeE",
        ),
        (TokenFunction("no_such_module.function"), "it raised ModuleNotFoundError; call it on this host"),
    ],
)
def test_a_source_that_gives_none_is_named_with_the_reason(source: TokenSource, message: str) -> None:
    with pytest.raises(TokenUnavailableError) as caught:
        current_token(source)
    assert message in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_program_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "ANSWER_SECONDS", 0.2)
    with pytest.raises(TokenUnavailableError, match=r"still running after 0\.2 s"):
        current_token(TokenCommand(("sleep", "60")))


def test_a_program_sees_none_of_airflows_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", "s3cret")
    monkeypatch.setenv("CLOUD_PROFILE", "prod")
    script = "echo $CLOUD_PROFILE:$AIRFLOW_CONN_OTHER:"
    assert current_token(TokenCommand(("sh", "-c", script))) == "prod::"


def test_no_text_shows_a_secret_and_sources_can_be_pickled() -> None:
    source = TokenCommand(("login", "--client-secret=s3cret"))
    assert "s3cret" not in f"{source} {source!r} {Token('s3cret')!r}"
    assert pickle.loads(pickle.dumps(source)) == source  # noqa: S301
