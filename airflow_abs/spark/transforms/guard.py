"""No Spark job may run while a transform is compiled: actions and hidden inputs are caught here.

The client sends every execution through two methods; both are watched for the time of one transform, and so are those
that set the session or keep rows in it. A query in `spark.sql` is let through: the server only hands back a relation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.spark.connect.shared_change import shared
from airflow_abs.spark.transforms.commands import check_query, check_setting

log = logging.getLogger(__name__)

_KEEPS_ROWS = ("persist", "unpersist")
"""`cache()` changes no row, and would keep placeholders in a session that no subtask shares: it is passed over."""

_COMPILED: ContextVar[str | None] = ContextVar("compiled_by_this_thread", default=None)

_WATCHED = ("_execute", "_execute_and_fetch_as_iterator")


@contextmanager
def no_execution(session: Any, who: str) -> Iterator[None]:
    """Refuse every execution on `session` inside the block.

    Args:
        session: of a Connect client.
        who: whose transform it is, as messages begin: ``vertex 'orders'``, ``stream 'clicks'``.

    Raises:
        JobGraphError: names what it is of, what it tried and what to do instead.
    """
    client = session.client
    originals = {name: getattr(client, name) for name in _WATCHED}

    def watch(original: Any) -> Any:
        def checked(request: Any, *args: Any, **kwargs: Any) -> Any:
            if request.plan.command.WhichOneof("command_type") == "sql_command":
                check_query(request.plan.command.sql_command.input, who)
            _check(request.plan, who)
            return original(request, *args, **kwargs)

        return checked

    def configure(operation: Any) -> Any:
        check_setting(operation, who)
        return config(operation)

    def analyse(method: str, **kwargs: Any) -> Any:
        if method in _KEEPS_ROWS:
            log.info("%s: %s() has no effect in a transform, whose rows are computed once for all readers", who, method)
            return None
        return analyze(method, **kwargs)

    def ship(*args: Any, **kwargs: Any) -> Any:
        raise JobGraphError(
            f"{who}: its transform adds artifacts to the session of plan, which no subtask shares; give "
            "Python files to the job as JobOptions(py_files=[...]), and jars to the Spark server when it starts"
        )

    config, analyze = client.config, client._analyze
    watching = {name: watch(original) for name, original in originals.items()}
    watching |= {"config": configure, "_analyze": analyse, "add_artifacts": ship, "copy_from_local_to_fs": ship}
    for name, watched in watching.items():
        setattr(client, name, watched)
    token = _COMPILED.set(who)
    try:
        with _watched_builders():
            yield
    finally:
        _COMPILED.reset(token)
        for name in watching:
            delattr(client, name)


@shared
@contextmanager
def _watched_builders() -> Iterator[None]:
    """`SparkSession.builder` opens no session for a transform: it would be another one, or start a Spark in `plan`."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession
    from pyspark.sql.session import SparkSession

    originals = {builder: builder.getOrCreate for builder in (SparkSession.Builder, ConnectSession.Builder)}

    def watch(original: Any) -> Any:
        def get(builder: Any) -> Any:
            if (who := _COMPILED.get()) is not None:
                raise JobGraphError(
                    f"{who}: its transform opens a Spark session (SparkSession.builder.getOrCreate()), and subtasks "
                    "run in the session of the job's connection. Remove the call: use the DataFrames that the "
                    "transform gets, orders.sparkSession where it needs the session, and source= to read data"
                )
            return original(builder)

        return get

    for builder, original in originals.items():
        builder.getOrCreate = watch(original)
    try:
        yield
    finally:
        for builder, original in originals.items():
            builder.getOrCreate = original


def _check(plan: Any, who: str) -> None:
    command = plan.command.WhichOneof("command_type") if plan.WhichOneof("op_type") == "command" else None
    if command == "sql_command":
        return
    if command == "create_dataframe_view":
        raise JobGraphError(
            f"{who}: its transform makes a temporary view, which hides its input; "
            "hand the DataFrame to the query itself: spark.sql(query, df=df), with {df} in the query"
        )
    if command in ("register_function", "register_table_function", "register_data_source"):
        raise JobGraphError(
            f"{who}: its transform registers a function with the session, which its subtasks do not share; "
            "use the function as a column expression (pyspark.sql.functions.udf)"
        )
    what = "an action (count, collect, show, toPandas, ...)" if command is None else f"the command {command}"
    raise JobGraphError(
        f"{who}: its transform runs {what}; expected a function that only builds a DataFrame "
        "from its inputs. "
        "Return the DataFrame and let its sink or its consumers use it"
    )
