"""The function behind what an author gave: a partial, a decorated function, a method, an object that can be called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def underlying(transform: Callable[..., Any]) -> Callable[..., Any]:
    """The innermost function, whose annotations and globals are the author's; itself where there is none (builtins)."""
    seen: set[int] = set()
    while id(transform) not in seen:
        seen.add(id(transform))
        if isinstance(transform, functools.partial):
            transform = transform.func
        elif inspect.ismethod(transform):
            transform = transform.__func__
        elif hasattr(transform, "__wrapped__"):  # functools.wraps
            transform = transform.__wrapped__
        elif not inspect.isroutine(transform) and not inspect.isclass(transform):
            transform = type(transform).__call__
    return transform


def name_of(transform: Callable[..., Any]) -> str:
    """What it is called in messages, and a vertex that is named after it."""
    while isinstance(transform, functools.partial):
        transform = transform.func
    return str(getattr(transform, "__name__", type(transform).__name__))
