"""The progress of a step in which several vertices run, with how far each of them is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.records.manifest import PassedRows
from airflow_abs.exchange.records.plan import PlannedStep
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.execute import Progress
from airflow_abs.spark.connect.web_ui import NotToldError, WebUi, find_ui
from airflow_abs.spark.errors import SparkOperationError
from airflow_abs.spark.relations import Relation
from airflow_abs.spark.run.passed_rows import UnmatchedPlanError, find_passed
from airflow_abs.spark.run.stage_order import (
    StageOrder,
    UnorderedStagesError,
    count_listings,
    explain_marked,
    order_stages,
)

log = logging.getLogger(__name__)

_EXPLAIN_AFTER_SECONDS = 3.0
"""A shorter operation is over before anybody could look, and is not explained."""


@dataclass(slots=True)
class ProgressByVertex:
    """A listener that tells another one more: it never fails, and says why where vertices cannot be told apart."""

    connection: Connection
    session_id: str
    step: PlannedStep
    bind: Callable[[], Relation]
    listener: Callable[[Progress], None]
    _order: StageOrder | None = None
    _unattributed: str = ""
    _explained: str = ""
    _ui: WebUi | None = None
    _untold: str = "the operation was over within a few seconds"
    _started: float = field(default_factory=time.monotonic)
    _ended: dict[int, float] = field(default_factory=dict)

    def __call__(self, progress: Progress) -> None:
        for place, stage in enumerate(progress.stages):
            if 0 < stage.tasks_total <= stage.tasks_done:
                self._ended.setdefault(place, time.monotonic())
        if self._order is not None:
            try:
                progress = replace(progress, vertices=self._order.shares(progress.stages))
            except UnorderedStagesError as error:
                self._order, self._unattributed = None, str(error)
        self.listener(replace(progress, unattributed=self._unattributed))

    @asynccontextmanager
    async def explained(self) -> AsyncIterator[ProgressByVertex]:
        """Find out the order of its stages while the block runs."""
        explaining = asyncio.create_task(self._explain())
        try:
            yield self
        finally:
            explaining.cancel()
            await asyncio.wait({explaining})
            error = None if explaining.cancelled() else explaining.exception()
            if error is not None:  # whatever it is, it must not fail the subtask
                log.warning("the progress of each vertex is not known: %s: %s", type(error).__name__, error)

    def spent(self) -> dict[str, float]:
        """Seconds that Spark worked for each vertex in the operation, which has ended just now; {} if its stages are
        not told apart. A process that takes the operation over knows its own seconds of it."""
        if self._order is None:
            return {}
        return {
            name: round(seconds, 3)
            for name, seconds in self._order.seconds(self._ended, self._started, time.monotonic()).items()
        }

    async def count_passed(self, operation_id: str) -> tuple[dict[str, PassedRows], str]:
        """The rows of each vertex that Spark counted in the operation, which has ended; and if none, why."""
        if self._ui is None:
            return {}, self._untold
        try:
            execution = await asyncio.to_thread(self._ui.execution_of, operation_id)
            return find_passed(self._explained, self.step.inlined, execution), ""
        except (NotToldError, UnmatchedPlanError) as error:
            return {}, str(error)
        except Exception as error:  # whatever it is, it must not fail the subtask
            log.warning("the rows of each vertex are not known: %s: %s", type(error).__name__, error)
            return {}, "Spark's UI tells what cannot be read"

    async def _explain(self) -> None:
        await asyncio.sleep(_EXPLAIN_AFTER_SECONDS)
        try:
            bound = await asyncio.to_thread(self.bind)
            self._explained = await explain_marked(self.connection, self.session_id, bound)
        except (SparkOperationError, ExchangeError):
            self._unattributed = self._untold = "Spark did not explain its plan"
            return
        try:
            self._order = order_stages(self._explained, self.step.vertex, self.step.inlined, count_listings(bound))
        except UnorderedStagesError as error:
            self._unattributed = str(error)
        try:  # before the operation ends: no one waits for a server that does not answer
            self._ui = await find_ui(self.connection, self.session_id)
        except (NotToldError, SparkOperationError) as error:
            self._untold = str(error) if isinstance(error, NotToldError) else "Spark does not say where its UI is"
