"""What an author declares in addition to the transform: its settings, and what it promises to return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_abs.core.errors import JobGraphError


@contextmanager
def set_conf(session: Any, vertex: str, conf: Mapping[str, str]) -> Iterator[None]:
    """The vertex's `spark_conf`, in force inside the block.

    Raises:
        JobGraphError: Spark does not let a session change one of them.
    """
    from pyspark.errors import PySparkException

    before: dict[str, str | None] = {}
    try:
        for key, value in conf.items():
            earlier = session.conf.get(key, None)
            try:
                session.conf.set(key, value)
            except PySparkException as error:
                raise JobGraphError(
                    f"vertex {vertex!r}: Spark does not accept {key}={value!r} from its spark_conf ({error}); set "
                    "server-wide settings when the server starts"
                ) from error
            before[key] = earlier
        yield
    finally:
        for key, earlier in before.items():
            if earlier is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, earlier)


def check_contract(session: Any, vertex: str, found: Any, promised: str) -> None:
    """The output is what `schema` of the vertex says: the same columns in the same order, of the same types.

    A column may be NULL unless the contract says ``NOT NULL``; then Spark must know that it never is.

    Raises:
        JobGraphError: the contract is no DDL, or names all that differs from it.
    """
    from pyspark.errors import PySparkException

    try:
        expected = session.createDataFrame([], promised).schema
    except PySparkException as error:
        raise JobGraphError(
            f"vertex {vertex!r}: its schema {promised!r} is not DDL that Spark reads: {error}"
        ) from error
    problems = [
        *(f"no column {name}" for name in expected.names if name not in found.names),
        *(f"a column {name} that is not promised" for name in found.names if name not in expected.names),
    ]
    for field in expected.fields:
        own = next((other for other in found.fields if other.name == field.name), None)
        if own is None:
            continue
        if own.dataType != field.dataType:
            problems.append(f"{field.name} is {own.dataType.simpleString()}, not {field.dataType.simpleString()}")
        elif own.nullable and not field.nullable:
            problems.append(f"{field.name} may be NULL (use coalesce, or drop NOT NULL)")
    if not problems and expected.names != found.names:
        problems.append(f"the columns are in the order {', '.join(found.names)}")
    if problems:
        raise JobGraphError(
            f"vertex {vertex!r}: its output is not what its schema promises: {'; '.join(problems)}. Correct the "
            "transform, or the schema and its readers"
        )
