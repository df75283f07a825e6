"""Cuts the state of a stopped stream into other partitions: a small Spark application, in a process of its own.

    python -m airflow_abs.spark.stream.repartition_application '{"master": ..., "checkpoint": ..., ...}'

It lives for as long as its parent says so, a line on standard input at a time: without one for some seconds, or when
the input ends, it ends at once with its JVM, wherever it is. So nothing of it writes to a checkpoint that its parent,
paused or dead, does not hold any more. Its last line on standard output is its outcome, as JSON.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any

SILENT_SECONDS = 10.0
"""How long it runs without a sign of its supervisor."""
FIRST_RELEASE = "4.2"
"""Of Spark that repartitions state."""
_CALLING = ".repartition.\n: "
_SAID = 600


def main(argument: str) -> int:
    """Repartition as the argument says: `master`, `checkpoint` and `sink` as URIs, `partitions`."""
    told = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what Spark's programs print is no answer
    threading.Thread(target=_listen, daemon=True).start()
    try:
        answer = _repartition(json.loads(argument))
    except Exception as error:  # the parent undoes what there is, and says why
        answer = {"error": _said(error)}
    os.write(told, json.dumps(answer).encode() + b"\n")
    return 1 if "error" in answer else 0


def _said(error: Exception) -> str:
    """Its own words: without py4j's, and without a trace of Java's."""
    words = str(error).partition("\n\tat ")[0].rpartition(_CALLING)[2]
    return f"{type(error).__name__}: {' '.join(words.split())[:_SAID]}"


def _listen() -> None:
    while select.select([sys.stdin], [], [], SILENT_SECONDS)[0]:
        if not os.read(sys.stdin.fileno(), 4096):
            break
    _end()


def _end() -> None:
    """With the JVM, which is in the same process group."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _repartition(request: Mapping[str, Any]) -> dict[str, Any]:
    from pyspark import __version__
    from pyspark.sql import SparkSession

    conf = {"spark.ui.enabled": "false"}
    if request["master"].startswith("local"):  # no other host may reach it
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.appName("airflow_abs repartitions a stream's state").master(request["master"])
    spark = builder.config(map=conf).getOrCreate()
    manager = getattr(spark, "_streamingCheckpointManager", None)
    if manager is None:
        return {"error": f"pyspark {__version__} does not repartition state; expected {FIRST_RELEASE} or newer"}
    _ = spark.streams  # without it no coordinator of state stores runs, and reading them fails
    manager.repartition(request["checkpoint"], request["partitions"])
    if not _add_to_sink(spark, request["sink"], request["batch"]):
        return {"error": f"{request['sink']} has a batch {request['batch']} already"}
    return {}


def _add_to_sink(spark: Any, sink: str, batch: int) -> bool:
    """The batch of the repartitioning has no rows; without it the log of the sink could not be read any more."""
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
    log = sinks.FileStreamSinkLog(
        sinks.FileStreamSinkLog.VERSION(), spark._jsparkSession, sink, jvm.scala.Option.empty()
    )
    return bool(log.add(batch, gateway.new_array(sinks.SinkFileStatus, 0)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
