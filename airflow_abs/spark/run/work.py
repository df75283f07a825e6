"""What one attempt reads, which Spark commands it sends, and what it has written so far."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.durability.broadcast_join import fits_broadcast
from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.paths import uri_for_spark
from airflow_abs.exchange.records.manifest import (
    InnerResult,
    Manifest,
    PassedRows,
    ResultFile,
    ResultManifest,
    files_for_range,
)
from airflow_abs.exchange.records.plan import PlannedInput, PlannedStep
from airflow_abs.exchange.results.measuring import measure_result, merge_results
from airflow_abs.exchange.results.waiting import write_waiting
from airflow_abs.exchange.results.written_steps import note_written
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.exchange.storage.whole_files import read_bytes
from airflow_abs.spark.observing import Observed, observe, template_columns
from airflow_abs.spark.relations import Relation, broadcast, coalesce, read_result, write_files
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.pieces import Piece, keeps_steps
from airflow_abs.spark.run.subtask_spec import FilesOfProducer, Inputs, SubtaskSpec
from airflow_abs.spark.source_files import read_source
from airflow_abs.spark.template import bind, messages_of
from airflow_abs.spark.values import mix_in_subtask

# Slower, but with little in memory at a time: for a range that cannot be cut any further.
_SPILLING = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
    "spark.sql.join.preferSortMergeJoin": "true",
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.parquet.columnarReaderBatchSize": "1024",
    "spark.sql.execution.useObjectHashAggregateExec": "false",
}


@dataclass(slots=True)
class AttemptWork:
    """One attempt under way: its inputs, its pieces, and the results that it has written. `passed`, `uncounted`
    and `spent` as in `Manifest`."""

    spec: SubtaskSpec
    attempt: SubtaskAttempt
    inputs: Inputs
    pieces: Sequence[Piece]
    results: dict[tuple[int | None, str], ResultManifest] = field(default_factory=dict)
    passed: dict[str, PassedRows] = field(default_factory=dict)
    uncounted: str = ""
    spent: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, spec: SubtaskSpec, attempt: SubtaskAttempt, inputs: Inputs, kept: Mapping[str, ResultManifest]
    ) -> AttemptWork:
        """`kept` are results of an earlier attempt that are whole and need not be written again."""
        if kept:  # pieces of the earlier attempt are not told apart any more
            return cls(spec, attempt, inputs, [spec.whole()], {(None, name): result for name, result in kept.items()})
        return cls(spec, attempt, inputs, spec.pieces(inputs))

    @property
    def spills(self) -> bool:
        """Whether it ran out of memory, and cutting alone will not help."""
        return bool(len(self.pieces) < 2**self.spec.memory_failures)

    def settings(self) -> dict[str, str]:
        return self.spec.settings() | (_SPILLING if self.spills else {})

    def operation_id(self, number: int, piece: Piece) -> str:
        return self.attempt.operation_id(self.spec.folder, self.spec.template_number(number), piece.number)

    def build_plan(self, number: int, piece: Piece) -> bytes:
        """The write command of one step, always the same bytes for the same attempt and inputs."""
        step, operation_id = self.spec.region.steps[number], self.operation_id(number, piece)
        bound = self.bind_step(number, piece, operation_id.replace("-", ""))
        bound = observe(bound, operation_id, step)
        target = uri_for_spark(self._path(step, piece))
        command = write_files(bound, target, step.format, step.options, step.partition_by)
        plan: bytes = command.SerializeToString(deterministic=True)
        return plan

    def bind_step(self, number: int, piece: Piece, suffix: str) -> Relation:
        """The rows that a step writes; views of its plan have the `suffix`."""
        from airflow_abs.spark.connect.protocol import protos

        step = self.spec.region.steps[number]
        template = protos().Relation()
        template.ParseFromString(self._read_template(number, step))
        own = mix_in_subtask(template, template_columns(step), self.attempt.index, piece.number or 0)
        bound = bind(own, self._bindings(step, piece))
        rename_views(bound, suffix)
        return bound

    def measure(self, step: PlannedStep, piece: Piece, found: Observed) -> None:
        path = self._path(step, piece)
        measured = measure_result(self.spec.folder, path, step, found.rows, found.checksum, found.tallies)
        measured = replace(measured, combined=found.combined, sampled=found.sampled)
        self.results[piece.number, step.result] = measured

    def note(self) -> None:
        """Store what is written so far, for a try that may resume after it."""
        if keeps_steps(self.spec.region):
            results = {name: result for (_, name), result in self.results.items()}
            own = self.attempt
            note_written(self.spec.folder, Manifest(own.region, own.index, own.attempt, own.decision, 0.0, results))

    def note_waiting(self, what: str) -> None:
        """For people who look at the run from outside."""
        write_waiting(self.spec.folder, self.attempt.region, self.attempt.decision, what, time.time())

    def merged(self) -> dict[str, ResultManifest]:
        """One result for all pieces of it."""
        return {
            name: merge_results([result for (_, other), result in self.results.items() if other == name])
            for name in self.spec.results
        }

    @property
    def inner(self) -> dict[str, InnerResult]:
        """What steps of a retry wrote for those after them, by vertex."""
        return {
            name.rpartition(".")[0]: InnerResult(result.rows, result.bytes)
            for (_, name), result in self.results.items()
            if name not in self.spec.results
        }

    def _path(self, step: PlannedStep, piece: Piece) -> ExchangePath:
        return self.spec.folder.result_path(
            self.attempt.region, self.attempt.index, self.attempt.attempt, step.result, piece.number
        )

    def _read_template(self, number: int, step: PlannedStep) -> bytes:
        path = self.spec.folder.step_path(self.spec.region.name, self.spec.template_number(number))
        data = read_bytes(path)
        found = hashlib.sha256(data).hexdigest()
        if step.digest != found:
            raise DamagedFileError(
                f"{path}: its content does not have the checksum that plan.json names; it was altered: clear the "
                "plan task and everything after it",
                path=str(path),
            )
        return data

    def _bindings(self, step: PlannedStep, piece: Piece) -> dict[str, Callable[[], Relation]]:
        bindings: dict[str, Callable[[], Relation]] = {}
        for source in self.spec.region.sources:
            bindings[source.placeholder] = partial(read_source, source, piece.files[source.name])
        for entry in self.spec.region.inputs:
            bindings[entry.placeholder] = partial(self._read_input, entry, step, piece)
        for placeholder, result in step.local.items():
            bindings[placeholder] = partial(self._read_local, self.results[piece.number, result])
        return bindings

    def _read_input(self, entry: PlannedInput, step: PlannedStep, piece: Piece) -> Relation:
        written = self.spec.plan.region(entry.region).step(entry.result)
        found = self.spec.files(entry, self.inputs, piece)
        subpartitions = piece.subpartitions if entry.is_ranged else None
        relation = read_result(
            self._paths([file for each in found for file in each.files]),
            schema=written.schema,
            numbered=written.is_numbered,
            subpartitions=subpartitions,
            left_out=self.spec.left_out if subpartitions is not None else frozenset(),
            cut={uri: classes for each in found for uri, classes in self._cut(each).items()},
        )
        if entry.is_broadcast and self._fits_broadcast(found, len(written.columns)):
            return broadcast(relation)
        return coalesce(relation, 1) if step.shuffles and self.spec.runs_on_one_core else relation

    def _fits_broadcast(self, found: Sequence[FilesOfProducer], columns: int) -> bool:
        """By what was really written; Spark goes by files, which are far smaller than their rows."""
        files = [file for each in found for file in each.files]
        size, rows = sum(file.bytes for file in files), sum(file.rows for file in files)
        return not self.spec.memory_failures and fits_broadcast(size, rows, columns)

    def _cut(self, found: FilesOfProducer) -> dict[str, IndexRange]:
        return {uri_for_spark(self.spec.folder.file_path(path)): classes for path, classes in found.cut.items()}

    def _read_local(self, result: ResultManifest) -> Relation:
        paths = self._paths(files_for_range(result, result.all))
        return read_result(paths, schema=result.schema, numbered=result.subpartitions > 1)

    def _paths(self, files: Sequence[ResultFile]) -> list[str]:
        return [uri_for_spark(self.spec.folder.file_path(file.path)) for file in files]


def rename_views(relation: Relation, suffix: str) -> None:
    """Give every view of a plan, in place, a name that no other operation has.

    `spark.sql("... {orders}", orders=df)` reaches the server as text that reads a temporary view, with the view's rows
    beside it. The server puts the view into the *session* while it analyses the text, and removes it afterwards.
    Subtasks share their session, and the plan template gives the view one name: without this, one subtask would read
    the rows of another, or find no view.

    Args:
        suffix: letters and digits, derived from the operation, so that the same operation sends the same plan.
    """
    for message in list(messages_of(relation)):
        if message.DESCRIPTOR.name != "WithRelations":
            continue
        names = [each.subquery_alias.alias for each in message.references if each.HasField("subquery_alias")]
        for reference in message.references:
            if reference.HasField("subquery_alias"):
                reference.subquery_alias.alias += suffix
        if message.root.HasField("sql"):
            for name in names:
                message.root.sql.query = message.root.sql.query.replace(name, name + suffix)
