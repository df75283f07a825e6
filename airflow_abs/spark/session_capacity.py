"""How many tasks the server of a pyspark session runs at once, and no wait without end if it runs none."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

from airflow_abs.spark.connect.capacity import (
    AS_WITHOUT_EXECUTORS,
    FIXED_PARALLELISM,
    LEAST_PARALLELISM,
    MASTER,
    RANGE_ROWS,
    describe_lack,
    seconds_between_looks,
    seems_without_executors,
    splits_of_range,
)
from airflow_abs.spark.connect.endpoint import AskExecutors, not_told
from airflow_abs.spark.errors import ResourcesError

log = logging.getLogger(__name__)

_TAG = "airflow_abs-waits"


def read_slots(session: Any) -> int | None:
    """How many Spark tasks the server runs at once now; None if it hides them. See `capacity.py`."""
    explained = session.client.explain_string(session.range(RANGE_ROWS)._plan.to_proto(session.client), "simple")
    return splits_of_range(explained)


def await_executors(session: Any, who: str, timeout: float, ask: AskExecutors = not_told) -> int | None:
    """The slots, once Spark has run one small task, if the cluster seems to have no executor.

    It comes before whatever reads the schema of files: Spark does that with a job of its own, which waits for executors
    without a word, and which no interrupt reaches.

    Args:
        who: waits, for messages.
        timeout: seconds, see `bounded_wait`.

    Raises:
        ResourcesError: it has none.
    """
    slots = read_slots(session)
    if (slots is None or slots <= LEAST_PARALLELISM) and _find_lack(session, ask, slots):
        with bounded_wait(session, f"{who} wants one Spark task before it reads schemas", timeout, ask):
            session.range(1).coalesce(1).collect()
        return read_slots(session)
    return slots


@contextmanager
def bounded_wait(session: Any, wanted: str, timeout: float, ask: AskExecutors = not_told) -> Iterator[None]:
    """Warn again and again while Spark does not run what the block sends, and interrupt it after `timeout` seconds
    (negative: never) if the cluster has no executor.

    Args:
        wanted: who wants what, for messages.

    Raises:
        ResourcesError: it has none.
    """
    from pyspark.errors import PySparkException

    over, started, refusal = Event(), time.monotonic(), ""

    def look() -> None:
        nonlocal refusal
        while not over.wait(seconds_between_looks(timeout)):
            waited = time.monotonic() - started
            lack = ""
            with suppress(PySparkException):
                lack = _find_lack(session, ask)
            found = lack or "other operations have all cores, or the cluster has no executor; look at it in Spark's UI"
            log.warning("waiting for resources: %s; %.0f s so far: %s", wanted, waited, found)
            with suppress(PySparkException):
                if lack and 0 <= timeout <= waited:
                    refusal = lack
                    session.interruptTag(_TAG)
                    return

    looker = Thread(target=look, name="waiting", daemon=True)
    session.addTag(_TAG)
    looker.start()
    try:
        yield
    except PySparkException as error:
        if not refusal:
            raise
        raise ResourcesError(
            f"Spark ran nothing for {time.monotonic() - started:.0f} s: {wanted}, and {refusal}; give the server "
            "executors (its cluster manager says why there is none), or raise resource_timeout"
        ) from error
    finally:
        over.set()
        looker.join()
        session.removeTag(_TAG)


def _find_lack(session: Any, ask: AskExecutors, slots: int | None = None) -> str:
    """How one knows that the cluster has no executor; "" if it has some, or does not tell."""
    told = ask()
    if told is not None:
        return describe_lack(told)
    master, fixed = (session.conf.get(name, None) for name in (MASTER, FIXED_PARALLELISM))
    is_without = seems_without_executors(read_slots(session) if slots is None else slots, master, fixed)
    return AS_WITHOUT_EXECUTORS if is_without else ""
