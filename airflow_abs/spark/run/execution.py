"""Run the steps of one attempt on Spark, piece by piece; nothing is decided or repeated here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from airflow_abs.exchange.py_files import read_py_file
from airflow_abs.exchange.records.manifest import ResultManifest
from airflow_abs.exchange.records.plan import PlannedStep
from airflow_abs.spark.catalog.unchanged_files import check_unchanged
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.execute import Progress, execute_operation
from airflow_abs.spark.connect.operations import Operation, add_py_files, get_config, release_operation, set_config
from airflow_abs.spark.errors import TransientSparkError
from airflow_abs.spark.observing import read_observed
from airflow_abs.spark.run.work import AttemptWork

_PY_FILES = "spark.airflow_abs.py_files"
"""A setting of ours: the plan whose `py_files` the session has."""
_SEND_AGAIN_SECONDS = (0.2, 0.4, 0.8)
"""Spark replaces a file by deleting it first, so that of two subtasks that send it at once one may find it gone."""

ProgressListener = Callable[[PlannedStep, Progress], None]


@dataclass(slots=True)
class AttemptExecution:
    """The Spark operations of one attempt. Cancelling `run` leaves them running; the same again attaches to them."""

    connection: Connection
    work: AttemptWork
    on_progress: ProgressListener | None = None
    operations: list[Operation] = field(default_factory=list)

    async def run(self) -> Mapping[str, ResultManifest]:
        """Write every result that the work does not have yet, and return all.

        Raises:
            SparkOperationError: one of its kinds; `SourceChangedError` if a file of a source is not what `plan` saw.
            ExchangeError: a template cannot be read, or what was written not be measured.
        """
        attempt, folder = self.work.attempt, self.work.spec.folder
        await set_config(self.connection, attempt.session_id(folder), self.work.settings())
        await self._send_py_files(attempt.session_id(folder))
        await self._check_sources("before")
        for piece in self.work.pieces:
            for number, step in enumerate(self.work.spec.region.steps):
                if (piece.number, step.result) in self.work.results:
                    continue
                operation = Operation(
                    session_id=attempt.session_id(folder),
                    operation_id=self.work.operation_id(number, piece),
                    plan=await asyncio.to_thread(self.work.build_plan, number, piece),
                    tags=(attempt.tag(folder),),
                )
                listener = partial(self.on_progress, step) if self.on_progress else None
                outcome = await execute_operation(self.connection, operation, on_progress=listener)
                found = read_observed(outcome.observed, operation.operation_id, step)
                await asyncio.to_thread(self.work.measure, step, piece, found)
                await asyncio.to_thread(self.work.note)
                self.operations.append(operation)
        await self._check_sources("after")
        return self.work.merged()

    async def _check_sources(self, when: str) -> None:
        self.operations += await check_unchanged(self.connection, self.work.spec, self.work.attempt, when)

    async def _send_py_files(self, session_id: str) -> None:
        """Once for each session: its other subtasks find the note that they are there."""
        spec = self.work.spec
        if not spec.plan.py_files:
            return
        files: dict[str, bytes] = {}
        for pause in (*_SEND_AGAIN_SECONDS, None):
            noted = await get_config(self.connection, session_id, [_PY_FILES])
            if noted[_PY_FILES] == spec.plan.id:
                return
            for file in spec.plan.py_files if not files else ():
                files[file.shipped_name] = await asyncio.to_thread(read_py_file, spec.folder, file)
            try:
                await add_py_files(self.connection, session_id, files)
                break
            except TransientSparkError:
                if pause is None:
                    raise
                await asyncio.sleep(pause)
        await set_config(self.connection, session_id, {_PY_FILES: spec.plan.id})

    async def release(self) -> None:
        """Last, when the manifest is there: until then, another process may have to attach again."""
        for operation in self.operations:
            await release_operation(self.connection, operation)
