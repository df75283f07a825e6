from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from benchmarks import failures
from benchmarks.__main__ import FAILURES
from benchmarks.failures import KINDS, Failure, describe_missed, plan_failure, run_failing


def test_the_last_step_fails_at_a_share_of_the_shortest_that_was_seen() -> None:
    assert plan_failure("end", [12.0, 10.0], 30.0) == Failure((9.0,))
    assert plan_failure("start", [10.0], 30.0) == Failure((1.0,))


def test_three_failures_are_at_the_same_seconds_for_everyone() -> None:
    failure = plan_failure("three", [10.0], 100.0)
    assert failure == plan_failure("three", [99.0], 100.0) == Failure((30.0, 60.0, 90.0), of_run=True)


def test_every_kind_has_a_title() -> None:
    assert set(FAILURES) == set(KINDS)


def test_a_failure_that_met_nothing_is_told() -> None:
    three = Failure((1.0, 2.0, 3.0), of_run=True)
    assert describe_missed(three, 2, 3) == "2 of 3 failures met it: it had ended before"
    assert describe_missed(Failure((1.0,)), 1, 1) == "no task was tried again after 1 failures"
    assert describe_missed(three, 3, 4) is None


class _Session:
    """Stands for a Connect session (its operations cannot run without a server); the job below looks at `ended`."""

    def __init__(self) -> None:
        self.ended = False

    def interruptAll(self) -> None:
        self.ended = True


def test_a_job_of_one_piece_starts_again_after_each_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[_Session] = []

    @contextmanager
    def open_session(_: object) -> Iterator[_Session]:
        sessions.append(_Session())
        yield sessions[-1]

    def run(session: _Session) -> float:
        for _ in range(2000):
            if session.ended:
                raise RuntimeError("OPERATION_CANCELED")
            time.sleep(0.001)
        raise AssertionError("nobody interrupted it")

    monkeypatch.setattr(failures, "open_session", open_session)
    assert run_failing(SimpleNamespace(), run, Failure((0.01, 0.02))) == 2  # type: ignore[arg-type]
    assert len(sessions) == 2
    assert run_failing(SimpleNamespace(), lambda _: 1.0, Failure((60.0, 70.0))) == 0  # type: ignore[arg-type]
