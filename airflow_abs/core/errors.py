"""Errors of the scheduling core::

    AdaptiveSchedulerError
    ├── InvalidValueError     (ValueError)    a number, range or name that no caller may hand in
    ├── JobGraphError         (ValueError)    a graph that cannot be scheduled
    └── InvalidStateError     (RuntimeError)  a question asked before it has an answer, or after it lost it

Every message says who, what was found and what was expected.
"""

from __future__ import annotations


class AdaptiveSchedulerError(Exception):
    """Base of the core's errors."""


class InvalidValueError(AdaptiveSchedulerError, ValueError):
    """A value is outside what its meaning allows."""


class JobGraphError(AdaptiveSchedulerError, ValueError):
    """A job graph contradicts itself."""


class InvalidStateError(AdaptiveSchedulerError, RuntimeError):
    """The object cannot answer in its current state."""
