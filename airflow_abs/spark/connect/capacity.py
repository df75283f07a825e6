"""How many tasks a Spark server runs at once, as it says itself."""

from __future__ import annotations

import re

from airflow_abs.core.slots.executors import Executors
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.operations import get_config
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.errors import ResourcesError

_RANGE_SPLITS = re.compile(r"\bsplits=(\d+)")
RANGE_ROWS = 1 << 20
LEAST_PARALLELISM = 2
"""What Spark says of a cluster without executors, and of one with two cores."""
MASTER, FIXED_PARALLELISM = "spark.master", "spark.default.parallelism"
_LOOK_SECONDS = 30.0
_LEAST_PAUSE = 0.1
AS_WITHOUT_EXECUTORS = f"the cluster has at most {LEAST_PARALLELISM} cores, as Spark says of one without executors"


def describe_lack(told: Executors) -> str:
    """What messages quote of the cluster manager if no executor runs; "" otherwise."""
    return "" if told.running else f"the cluster manager says: {told}"


def splits_of_range(explained: str) -> int | None:
    """The splits that an explained range of `RANGE_ROWS` rows gets; None if the plan does not show them.

    That is Spark's default parallelism: the cores of a local server, those of all executors of a cluster.
    """
    found = _RANGE_SPLITS.search(explained)
    return int(found[1]) if found else None


def seconds_between_looks(timeout: float) -> float:
    """How often a cluster is looked at, for a wait of `timeout` seconds (negative: without end) for its executors."""
    return _LOOK_SECONDS if timeout < 0 else max(_LEAST_PAUSE, min(_LOOK_SECONDS, timeout))


def seems_without_executors(capacity: int | None, master: str | None, fixed: str | None) -> bool:
    """Whether Spark's answers are those of a cluster that has no executor.

    Of a cluster, Spark's default parallelism is the cores of all executors, but at least 2
    (`CoarseGrainedSchedulerBackend.defaultParallelism`), so that one of 2 cores looks the same.

    Args:
        capacity: Spark's default parallelism.
        master: `spark.master`; a local one is its own executor.
        fixed: `spark.default.parallelism`, which hides the number.
    """
    if capacity is None or capacity > LEAST_PARALLELISM or fixed is not None or master is None:
        return False
    return re.match(r"local($|\[)", master) is None


async def ask_without_executors(connection: Connection, session_id: str, capacity: int) -> bool:
    """`seems_without_executors` of a server with this default parallelism; only that of a few cores is asked for more.

    Raises:
        SparkOperationError: the server's own, or it does not answer.
    """
    if capacity > LEAST_PARALLELISM:
        return False
    found = await get_config(connection, session_id, [MASTER, FIXED_PARALLELISM])
    return seems_without_executors(capacity, found[MASTER], found[FIXED_PARALLELISM])


async def read_capacity(connection: Connection, session_id: str) -> int:
    """Spark tasks that the server runs at once now.

    Raises:
        SparkOperationError: the server's own, or it does not answer, or ResourcesError: it hides the number.
    """
    proto = protos()
    request = proto.AnalyzePlanRequest(
        session_id=session_id, user_context=connection.user_context(), client_type=connection.client_type
    )
    explain = request.explain
    explain.explain_mode = proto.AnalyzePlanRequest.Explain.ExplainMode.EXPLAIN_MODE_SIMPLE
    explain.plan.root.range.end = RANGE_ROWS
    explain.plan.root.range.step = 1
    response = await connection.call("AnalyzePlan", request, patience=0)
    slots = splits_of_range(response.explain.explain_string)
    if slots is None:
        raise ResourcesError(
            f"Spark Connect server at {connection.endpoint.address} does not show how many tasks it runs at once; "
            "set JobOptions(slots=...) or [adaptive_spark] slots"
        )
    return slots
