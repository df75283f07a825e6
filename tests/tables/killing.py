"""A process that is gone at some call, and what it had called by then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest


class Killed(BaseException):
    """As if the process were gone."""


def count_calls(
    monkeypatch: pytest.MonkeyPatch, calls: Sequence[tuple[Any, str]], kill_at: int, *, after: bool
) -> list[str]:
    """Every one of these calls is counted; the one of this number kills, before or after it is done."""
    made: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            made.append(name)
            if len(made) == kill_at and not after:
                raise Killed
            mine = len(made)
            result = real(*arguments, **options)
            if mine == kill_at and after:
                raise Killed
            return result

        return call

    for owner, name in calls:
        monkeypatch.setattr(owner, name, counted(name, getattr(owner, name)))
    return made
