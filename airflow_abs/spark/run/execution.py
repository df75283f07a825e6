"""Run the steps of one attempt on Spark, piece by piece; nothing is decided or repeated here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from airflow_abs.exchange.py_files import read_py_file
from airflow_abs.exchange.records.manifest import ResultManifest
from airflow_abs.exchange.records.plan import PlannedStep
from airflow_abs.spark.catalog.unchanged_files import check_unchanged
from airflow_abs.spark.connect.abilities import RELEASED_STAY_KNOWN
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.execute import OperationOutcome, Progress, execute_operation
from airflow_abs.spark.connect.operations import Operation, add_py_files, get_config, release_operation, set_config
from airflow_abs.spark.observing import read_observed
from airflow_abs.spark.run.executor_wait import ExecutorWait
from airflow_abs.spark.run.pieces import Piece
from airflow_abs.spark.run.progress_by_vertex import ProgressByVertex
from airflow_abs.spark.run.work import AttemptWork

_PY_FILES = "spark.airflow_abs.py_files"
"""A setting of ours: the plan whose `py_files` the session has."""
_SENDER = "spark.airflow_abs.py_files.sender"
"""The attempt that sends them."""
_SENT_WITHIN_SECONDS = (0.5, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Waits for the note; the first is longer than it takes to ask who sends and to answer oneself. After the last, the
sender counts as ended."""

ProgressListener = Callable[[PlannedStep, Progress], None]


@dataclass(slots=True)
class AttemptExecution:
    """The Spark operations of one attempt. Cancelling `run` leaves them running; the same again attaches to them."""

    connection: Connection
    work: AttemptWork
    on_progress: ProgressListener | None = None
    operations: list[Operation] = field(default_factory=list)
    _noting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> Mapping[str, ResultManifest]:
        """Write every result that the work does not have yet, and return all.

        Raises:
            SparkOperationError: one of its kinds; `SourceChangedError` if a file of a source is not what `plan` saw.
            ExchangeError: a template cannot be read, or what was written not be measured.
        """
        attempt, folder = self.work.attempt, self.work.spec.folder
        server_session = await set_config(self.connection, attempt.session_id(folder), self.work.settings())
        await self._send_py_files(attempt.session_id(folder))
        await self._check_sources("before")
        for piece in self.work.pieces:
            await self._write_steps(piece, server_session)
        await self._check_sources("after")
        return self.work.merged()

    async def _write_steps(self, piece: Piece, server_session: str) -> None:
        """Each step once those are written that it reads: what could be subtasks of different regions runs side by
        side, as those would, on as many slots as there are."""
        spec = self.work.spec
        at_once = asyncio.Semaphore(1 if spec.memory_failures else spec.plan.slots or 1)
        writing: dict[str, asyncio.Task[None]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                for number, step in enumerate(spec.region.steps):
                    if (piece.number, step.result) not in self.work.results:
                        before = [writing[result] for result in step.local.values() if result in writing]
                        task = self._write_step(number, piece, server_session, before, at_once)
                        writing[step.result] = group.create_task(task)
        except ExceptionGroup as failed:  # what waits for the first that failed has failed by it, too
            first = failed.exceptions[0]
            raise first from first.__cause__

    async def _write_step(
        self,
        number: int,
        piece: Piece,
        server_session: str,
        before: Collection[asyncio.Task[None]],
        at_once: asyncio.Semaphore,
    ) -> None:
        for each in before:
            await each
        attempt, folder, step = self.work.attempt, self.work.spec.folder, self.work.spec.region.steps[number]
        async with at_once:
            operation = Operation(
                session_id=attempt.session_id(folder),
                operation_id=self.work.operation_id(number, piece),
                plan=await asyncio.to_thread(self.work.build_plan, number, piece),
                tags=(attempt.tag(folder),),
                server_session=server_session,
            )
            outcome = await self._execute(number, piece, operation)
        found = read_observed(outcome.observed, operation.operation_id, step)
        async with self._noting:
            await asyncio.to_thread(self.work.measure, step, piece, found)
            await asyncio.to_thread(self.work.note)
        self.operations.append(operation)

    async def _execute(self, number: int, piece: Piece, operation: Operation) -> OperationOutcome:
        step = self.work.spec.region.steps[number]
        listener = None if self.on_progress is None else partial(self.on_progress, step)
        timeout = self.work.spec.plan.options.resource_timeout
        wait = ExecutorWait(self.connection, operation, timeout, listener, self.work.note_waiting)
        async with wait.bounded():
            if listener is None or not step.inlined or self.work.spec.reads.parallelism > 1:  # shown by subtask
                return await execute_operation(self.connection, operation, on_progress=wait)
            session = (self.connection, operation.session_id)
            bound = partial(self.work.bind_step, number, piece, f"{operation.operation_id.replace('-', '')}x")
            by_vertex = ProgressByVertex(*session, step, bound, wait)
            async with by_vertex.explained():
                outcome = await execute_operation(self.connection, operation, on_progress=by_vertex)
                if len(self.work.pieces) == len(self.work.spec.region.steps) == 1:  # else these are not all seconds
                    self.work.spent = by_vertex.spent()
            await self._count_passed(by_vertex, operation)
            return outcome

    async def _count_passed(self, by_vertex: ProgressByVertex, operation: Operation) -> None:
        if len(self.work.pieces) > 1:
            self.work.uncounted = "it ran in pieces"
            return
        passed, why_not = await by_vertex.count_passed(operation.operation_id)
        self.work.passed |= passed
        self.work.uncounted = why_not

    async def _check_sources(self, when: str) -> None:
        self.operations += await check_unchanged(self.connection, self.work.spec, self.work.attempt, when)

    async def _send_py_files(self, session_id: str) -> None:
        """Once for each session: one of its subtasks sends them, the others wait for its note that they are there.

        Two must not send at once: to the second one, Spark answers before the file is on the path.
        Who sends is settled by Fischer's algorithm (Lamport, A Fast Mutual Exclusion Algorithm, 1987, section 2).
        """
        plan, folder = self.work.spec.plan, self.work.spec.folder
        own = self.work.attempt.tag(folder)
        for pause in _SENT_WITHIN_SECONDS if plan.py_files else ():
            noted = await get_config(self.connection, session_id, [_PY_FILES, _SENDER])
            if noted[_PY_FILES] == plan.id:
                return
            if noted[_SENDER] == own:
                break
            if not noted[_SENDER]:
                await set_config(self.connection, session_id, {_SENDER: own})
            await asyncio.sleep(pause)
        files = {file.shipped_name: await asyncio.to_thread(read_py_file, folder, file) for file in plan.py_files}
        if files:
            await add_py_files(self.connection, session_id, files)
            await set_config(self.connection, session_id, {_PY_FILES: plan.id})

    async def release(self) -> None:
        """Last, when the manifest is there: until then, another process may have to attach again.

        One that has looked for the manifest just before may still send the same operation: it must not run again.
        """
        if not (await self.connection.abilities()).has(RELEASED_STAY_KNOWN):
            return
        for operation in self.operations:
            await release_operation(self.connection, operation)
