"""A change of the whole process that several threads need at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from threading import Lock


def shared(change: Callable[[], AbstractContextManager[object]]) -> Callable[[], AbstractContextManager[None]]:
    """Make the change when the first user enters, and undo it when the last one leaves.

    Without this the first of two threads to leave would undo what the other still needs, or the second would take the
    first one's change for the state to go back to.
    """
    lock, made = Lock(), ExitStack()
    users = 0

    @wraps(change)
    @contextmanager
    def used() -> Iterator[None]:
        nonlocal users
        with lock:
            if users == 0:
                made.enter_context(change())
            users += 1
        try:
            yield
        finally:
            with lock:
                users -= 1
                if users == 0:
                    made.close()

    return used
