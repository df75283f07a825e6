"""What an author expects of a vertex's rows: conditions, unique keys, a row count like the last run's.

Declared by name, ``expect={"positive": "amount > 0", "one_per_order": Unique("order_id")}``, and carried from the DAG
file to the subtasks as `Expectation`s, which are plain values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from airflow_abs.core.errors import InvalidValueError, JobGraphError

OnFailure = Literal["fail", "warn"]


@dataclass(frozen=True, slots=True)
class Expect:
    """A condition that every row must meet. A row for which it is NULL does not meet it.

    Args:
        condition: SQL over the vertex's columns, such as ``"amount > 0"``; templated.
        on_failure: ``"fail"`` publishes nothing and runs no reader, ``"warn"`` is logged and shown.
        tolerance: share of the rows that may fail, from 0 up to 1.

    Raises:
        InvalidValueError: an empty condition, an unknown on_failure, or a tolerance out of its bounds.
    """

    condition: str
    on_failure: OnFailure = "fail"
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.condition, str) or not self.condition.strip():
            raise InvalidValueError(f"Expect: the condition is {self.condition!r}; expected SQL, such as 'amount > 0'")
        _check_options(f"Expect({self.condition!r})", self.on_failure, self.tolerance, below=1.0)


@dataclass(frozen=True, slots=True, init=False)
class Unique:
    """No two rows have the same values in these columns, over all subtasks. Rows with a NULL among them are not
    compared, as in SQL's UNIQUE.

    Args:
        columns: at least one, of types that can be sorted.
        on_failure: see `Expect`.
        tolerance: share of the rows that may repeat an earlier one's values, from 0 up to 1.

    Raises:
        InvalidValueError: no columns, an unknown on_failure, or a tolerance out of its bounds.
    """

    columns: tuple[str, ...]
    on_failure: OnFailure
    tolerance: float

    def __init__(self, *columns: str, on_failure: OnFailure = "fail", tolerance: float = 0.0) -> None:
        if not columns or not all(isinstance(column, str) and column for column in columns):
            raise InvalidValueError(f"Unique{columns!r}: expected names of columns, such as Unique('order_id')")
        _check_options(f"Unique{columns!r}", on_failure, tolerance, below=1.0)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "on_failure", on_failure)
        object.__setattr__(self, "tolerance", tolerance)


@dataclass(frozen=True, slots=True)
class RowCountChange:
    """The number of rows is about the same as in the last published run of the job.

    Args:
        tolerance: how much more or less, as a share of the earlier number: 0.5 accepts 50 to 150 rows after 100, and 2
            up to 300. The first run passes, and so does a run after one without rows.
        on_failure: see `Expect`.

    Raises:
        InvalidValueError: an unknown on_failure, or a negative tolerance.
    """

    tolerance: float
    on_failure: OnFailure = "fail"

    def __post_init__(self) -> None:
        _check_options("RowCountChange", self.on_failure, self.tolerance, below=None)


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation of a vertex by its name: a `condition`, unique `columns`, or with neither a row count."""

    name: str
    on_failure: OnFailure
    tolerance: float
    condition: str | None = None
    columns: tuple[str, ...] = ()

    @property
    def is_row_count(self) -> bool:
        """Compared with another run; nothing is counted for it but rows."""
        return self.condition is None and not self.columns

    @property
    def what(self) -> str:
        """``amount > 0``, ``Unique(order_id)``, ``RowCountChange``."""
        if self.condition is not None:
            return self.condition
        return f"Unique({', '.join(self.columns)})" if self.columns else "RowCountChange"

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Expectation:
        return cls(**{**value, "columns": tuple(value["columns"])})


def read_expectations(vertex: str, declared: Mapping[str, object]) -> tuple[Expectation, ...]:
    """What an author declared, in the order of the declaration; a bare string is a condition.

    Raises:
        JobGraphError: a name or a value is of another kind.
    """
    found = []
    for name, value in declared.items():
        if not isinstance(name, str) or not name.strip():
            raise JobGraphError(
                f"vertex {vertex!r}: an expectation is named {name!r}; expected a string such as 'positive'"
            )
        try:
            entry = Expect(value) if isinstance(value, str) else value
        except InvalidValueError as error:
            raise JobGraphError(f"vertex {vertex!r}: expectation {name!r}: {error}") from error
        match entry:
            case Expect():
                found.append(Expectation(name, entry.on_failure, entry.tolerance, condition=entry.condition))
            case Unique():
                found.append(Expectation(name, entry.on_failure, entry.tolerance, columns=entry.columns))
            case RowCountChange():
                found.append(Expectation(name, entry.on_failure, entry.tolerance))
            case _:
                raise JobGraphError(
                    f"vertex {vertex!r}: expectation {name!r} is {value!r}; expected a condition in SQL such as "
                    "'amount > 0', Expect(...), Unique(...) or RowCountChange(...)"
                )
    return tuple(found)


def unique_keys(expectations: Sequence[Expectation]) -> tuple[Expectation, ...]:
    """Those that say that a key is unique."""
    return tuple(each for each in expectations if each.columns)


def _check_options(what: str, on_failure: object, tolerance: object, *, below: float | None) -> None:
    if on_failure not in get_args(OnFailure):
        raise InvalidValueError(f"{what}: on_failure is {on_failure!r}; expected 'fail' or 'warn'")
    is_number = isinstance(tolerance, (int, float)) and not isinstance(tolerance, bool)
    if not is_number or not 0 <= tolerance < (below or float("inf")):  # type: ignore[operator]
        expected = f"a share of the rows from 0 up to {below:g}" if below else "a share of at least 0"
        raise InvalidValueError(f"{what}: tolerance is {tolerance!r}; expected {expected}, such as 0.01")
