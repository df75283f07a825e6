"""Everything the scheduling core raises, as one small tree::

    AdaptiveSchedulerError
    ├── InvalidValueError     (ValueError)    a number, range or name that no caller may hand in
    ├── JobGraphError         (ValueError)    a graph that cannot be scheduled
    └── InvalidStateError     (RuntimeError)  a question asked before it has an answer, or after it lost it

Every message says who, what was found, what was expected.
"""

from __future__ import annotations


class AdaptiveSchedulerError(Exception):
    """Base of what the scheduling core raises."""


class InvalidValueError(AdaptiveSchedulerError, ValueError):
    """A value is outside what its meaning allows."""


class JobGraphError(AdaptiveSchedulerError, ValueError):
    """A job graph contradicts itself."""


class InvalidStateError(AdaptiveSchedulerError, RuntimeError):
    """The object is not in a state in which the question has an answer."""
