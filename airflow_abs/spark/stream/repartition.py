"""Runs the application that cuts the state of a stopped stream into other partitions, while its lease holds."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass

from airflow_abs.spark.access.tokens import AIRFLOWS_VARIABLES
from airflow_abs.spark.server.java import JavaMissingError, find_java_home
from airflow_abs.spark.server.whole_spark import SparkMissingError, find_spark_home
from airflow_abs.spark.stream import repartition_application

MOST_SECONDS = 1800.0
"""After so long it is ended."""
_WORD_SECONDS = 3.0
_FOREIGN = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_", "SPARK_API_MODE", "PYSPARK_GATEWAY_")
"""How environment variables begin that would make another session of it."""
_SAID = 400


class RepartitionError(Exception):
    """It cannot be begun, or did not come to its end; then what it has written must be undone."""


@dataclass(frozen=True, slots=True)
class RepartitionRequest:
    """What the application is to do.

    Args:
        master: Spark's URL of where it runs.
        checkpoint: URI that Spark knows as ``checkpointLocation``.
        sink: URI of the log of the sink.
        partitions: of the state, afterwards.
        batch: that it will be in Spark's logs.
    """

    master: str
    checkpoint: str
    sink: str
    partitions: int
    batch: int


async def run_repartition(
    request: RepartitionRequest, environment: Mapping[str, str], renew: Callable[[], Awaitable[None]]
) -> None:
    """Run it to its end; cancelling ends it at once.

    Args:
        environment: see `application_environment`.
        renew: called every few seconds; the application ends if it raises, or does not return.

    Raises:
        RepartitionError: it failed, or took too long.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", repartition_application.__name__, json.dumps(asdict(request))),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    reading = asyncio.gather(process.stdout.read(), process.stderr.read(), process.wait())
    try:
        async with asyncio.timeout(MOST_SECONDS):
            await _let_it_live(process.stdin, reading, renew)
            answer, errors, status = await reading
    except TimeoutError as error:
        raise RepartitionError(f"it was still running after {MOST_SECONDS:g} s, and was stopped") from error
    finally:
        reading.cancel()
        _kill(process.pid)
        await process.wait()
    _check(answer, errors, status)


async def _let_it_live(
    words: asyncio.StreamWriter, reading: asyncio.Future[tuple[bytes, bytes, int]], renew: Callable[[], Awaitable[None]]
) -> None:
    while not reading.done():
        await renew()
        words.write(b"\n")
        await asyncio.wait([reading], timeout=_WORD_SECONDS)


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _check(answer: bytes, errors: bytes, status: int) -> None:
    try:
        error = json.loads(answer.splitlines()[-1]).get("error")
    except (LookupError, ValueError):
        said = errors.decode(errors="replace").strip()[-_SAID:]
        error = f"it ended with status {status} and reported no outcome: {said}"
    if error is not None:
        raise RepartitionError(error)


def application_environment() -> dict[str, str]:
    """Environment variables of the application: ours, without what would make a Connect session of it, and without
    Airflow's secrets.

    Raises:
        RepartitionError: there is no Spark, or no Java, for it on this host.
    """
    try:
        home, java = find_spark_home("an application"), find_java_home()
    except SparkMissingError as error:
        raise RepartitionError(
            "only the client of Spark is installed where the stream is supervised; install airflow-abs[embedded] there"
        ) from error
    except JavaMissingError as error:
        raise RepartitionError(str(error)) from error
    foreign = (*AIRFLOWS_VARIABLES, *_FOREIGN)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return kept | {"SPARK_HOME": str(home), "JAVA_HOME": str(java), "PYSPARK_PYTHON": sys.executable}
