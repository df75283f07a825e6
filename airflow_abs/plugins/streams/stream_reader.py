"""A stream for the page: what is remembered beside its checkpoint, with the state of its task instance."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.exchange.streaming.lease import read_holder
from airflow_abs.exchange.streaming.life_record import read_life
from airflow_abs.plugins.airflow_runs import RunFacts
from airflow_abs.plugins.streams.airflow_streams import StreamFacts

_UNREADABLE = (ExchangeError, OSError, ImportError, ValueError)


@dataclass(frozen=True, slots=True)
class StreamReader:
    """Reads two small files for each stream, each time that it is asked.

    Args:
        open_path: opens the folder of a checkpoint.
        clock: the time in epoch seconds.
    """

    open_path: Callable[[str], ExchangePath]
    clock: Callable[[], float] = time.time

    def read_run(self, run: RunFacts, streams: list[StreamFacts]) -> dict[str, Any]:
        """The document that the page draws; what cannot be read of a stream is said as its `problem`."""
        return {
            **run.to_json(),
            "dag_id": run.dag_id,
            "now": self.clock(),
            "streams": [self._read(run, stream) for stream in streams],
        }

    def _read(self, run: RunFacts, stream: StreamFacts) -> dict[str, Any]:
        told = {**asdict(stream), "problem": None, "supervised": False, "holder": None, "life": None}
        if stream.checkpoint is None:
            return {**told, "problem": "its task has not started, or Airflow no longer knows where its checkpoint is"}
        try:
            folder = self.open_path(stream.checkpoint)
            holder, life = read_holder(folder), read_life(folder)
        except _UNREADABLE as error:
            return {**told, "problem": f"{type(error).__name__}: {error}"}
        if holder is None:
            return {**told, "problem": "it has not started yet"}
        index = "" if stream.map_index < 0 else f"[{stream.map_index}]"
        return {
            **told,
            "supervised": holder.until >= self.clock(),
            "is_this": holder.owner == f"{run.dag_id}/{run.run_id}/{stream.task_id}{index}",
            "holder": {"owner": holder.owner, "server": holder.server, "slots": holder.slots, "until": holder.until},
            "life": None if life is None else asdict(life),
        }
