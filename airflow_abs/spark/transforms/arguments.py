"""Arguments of transforms: Airflow's templates give text, a transform asks for a date."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from types import UnionType
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.spark.transforms.functions import underlying

_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


def coerce_arguments(who: str, transform: Callable[..., Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Text that a template left, as the type by which the transform annotates the parameter.

    int, float, bool, Decimal, date and datetime (ISO 8601) are read, also where they are optional (an empty text is
    None then). Whatever is annotated otherwise, or not at all, and what is no text, stays as it is.

    Raises:
        JobGraphError: the text cannot be read as that type; names whose it is, parameter, type and text.
    """
    types = _annotations(transform)
    return {name: _coerce(who, name, types.get(name), value) for name, value in kwargs.items()}


def _annotations(transform: Callable[..., Any]) -> Mapping[str, Any]:
    """Resolved one by one: a name that exists for type checkers only must not hide the others."""
    function = underlying(transform)
    names = getattr(function, "__globals__", {})
    return {name: _resolve(value, names) for name, value in getattr(function, "__annotations__", {}).items()}


def _resolve(annotation: Any, names: Mapping[str, Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, dict(names))  # noqa: S307 - the annotation of the author's own function
    except Exception:  # whatever an annotation may hold: it is then no type that we read
        return None


def _coerce(who: str, name: str, annotation: Any, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    kinds = typing.get_args(annotation) if typing.get_origin(annotation) in (typing.Union, UnionType) else (annotation,)
    wanted = [kind for kind in kinds if kind is not type(None)]
    if len(wanted) != 1 or wanted[0] not in _READERS:
        return value
    if not value and type(None) in kinds:
        return None
    try:
        return _READERS[wanted[0]](value.strip())
    except (ValueError, ArithmeticError) as error:
        raise JobGraphError(
            f"{who}: argument {name!r} of its transform is {value!r}; expected {wanted[0].__name__}, as "
            f"the parameter is annotated ({error})"
        ) from error


def _read_bool(text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise ValueError("neither true nor false")
    return text.lower() in _TRUE


_READERS: Mapping[Any, Callable[[str], Any]] = {
    bool: _read_bool,
    int: int,
    float: float,
    Decimal: Decimal,
    date: lambda text: datetime.fromisoformat(text).date(),
    datetime: datetime.fromisoformat,
}
