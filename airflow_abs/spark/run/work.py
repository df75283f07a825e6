"""What one attempt reads, which Spark commands it sends, and what it has written so far."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from airflow_abs.core.decide.parallelism import divide_up
from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.decide.spark_tasks import runs_on_one_core, shuffle_partitions, source_task_bytes
from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.paths import JobFolder, uri_for_spark
from airflow_abs.exchange.records.manifest import (
    Manifest,
    ResultFile,
    ResultManifest,
    bytes_by_subpartition,
    files_for_range,
)
from airflow_abs.exchange.records.plan import (
    JobPlan,
    PlannedInput,
    PlannedRegion,
    PlannedStep,
    read_plan,
)
from airflow_abs.exchange.records.slices import Slice, read_slice
from airflow_abs.exchange.results.measuring import measure_result, merge_results
from airflow_abs.exchange.results.written_steps import note_written
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.exchange.storage.whole_files import read_bytes
from airflow_abs.spark.connect.operations import EVERY_SESSION, derive_id
from airflow_abs.spark.observing import Observed, observe, template_columns
from airflow_abs.spark.relations import RESULT_SETTINGS, Relation, coalesce, read_result, write_files
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.input_files import FilesOfProducer, files_of_producers, producers_read
from airflow_abs.spark.run.pieces import Piece, cut_pieces, keeps_steps, most_files, why_it_stays_whole
from airflow_abs.spark.source_files import read_source
from airflow_abs.spark.sql_views import rename_views
from airflow_abs.spark.template import bind
from airflow_abs.spark.values import mix_in_subtask

# Rows of exchange files are at least so many times larger in memory (docs/benchmarks.md). Spark, which goes by the
# files, would broadcast what does not fit.
_ROWS_OVER_FILES = "4"
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

Inputs = Mapping[str, Sequence[Manifest]]
"""The manifests of all subtasks of each producer region that are needed, in order."""


@dataclass(frozen=True, slots=True)
class SubtaskSpec:
    """One subtask as planned and decided; `memory_failures` is how often it ran out of memory before."""

    folder: JobFolder
    plan: JobPlan
    region: PlannedRegion
    reads: Slice
    memory_failures: int = 0

    @classmethod
    def load(cls, folder: JobFolder, attempt: SubtaskAttempt, memory_failures: int = 0) -> SubtaskSpec:
        """Read it from the exchange.

        Raises:
            ExchangeError: plan or slice is missing, damaged, or not of the decision that mapped this subtask.
        """
        plan = read_plan(folder)
        planned = plan.region(attempt.region)
        reads = read_slice(folder, planned, attempt.index, decision=attempt.decision)
        return cls(folder, plan, planned, reads, memory_failures)

    @property
    def index(self) -> int:
        return self.reads.index

    @property
    def subpartitions(self) -> IndexRange | None:
        return self.reads.subpartitions

    @property
    def runs_on_one_core(self) -> bool:
        """Whether its inputs are read without parallelism, which spares every shuffle."""
        alone = runs_on_one_core(self.reads.parallelism, self.plan.slots, self.reads.largest_bytes)
        return alone and not self.region.sources and not self.memory_failures

    def describe(self) -> str:
        """``enriched[3] of 8 (subpartitions [4, 8), 1.5 MB)``."""
        from airflow_abs.core.wording import format_bytes

        reads = f"subpartitions {self.subpartitions}" if self.subpartitions else "files"
        size = format_bytes(self.reads.bytes)
        vertices = " -> ".join(self.region.vertices)
        return f"{self.region.name}[{self.index}] of {self.reads.parallelism} ({reads}, {size}; vertex {vertices})"

    def producers(self, entry: PlannedInput) -> Collection[int]:
        """The producer's subtasks that wrote what this one reads of an input."""
        return producers_read(self.reads, entry)

    def files(self, entry: PlannedInput, inputs: Inputs, piece: Piece | None = None) -> list[FilesOfProducer]:
        """What this one (or a piece of it) reads of an input."""
        wanted = set(self.producers(entry))
        read = [manifest for manifest in inputs[entry.region] if manifest.index in wanted]
        return files_of_producers(self.reads, entry, read, piece or self.whole())

    @property
    def left_out(self) -> frozenset[int]:
        """Hot subpartitions within its range, which others read."""
        return frozenset(self.reads.left_out)

    def settings(self) -> dict[str, str]:
        """Configuration of the attempt's session; of first attempts the same for all subtasks of the decision."""
        largest = self.reads.largest_bytes
        slots = self.plan.slots
        # Spark would cut the files of every subtask for all slots of the cluster, and write as many files.
        cut = {"spark.sql.files.minPartitionNum": str(divide_up(slots, self.reads.parallelism))} if slots else {}
        if self.region.sources:
            cut["spark.sql.files.maxPartitionBytes"] = str(source_task_bytes(largest, sorts=self._sorts))
        else:
            cut["spark.sql.sources.fileCompressionFactor"] = _ROWS_OVER_FILES
        if self.runs_on_one_core:  # else Spark would shuffle all the same where the whole files exceed 128 MB
            cut["spark.sql.maxSinglePartitionBytes"] = "1t"
        return cut | {
            "spark.sql.shuffle.partitions": str(max(shuffle_partitions(largest), slots or 1)),
            **EVERY_SESSION,
            "spark.scheduler.pool": derive_id(self.folder.dag_id, self.folder.run_id),
            **self.region.spark_conf,
            **(RESULT_SETTINGS if self._writes_for_others else {}),
        }

    @property
    def _sorts(self) -> bool:
        """Whether it sorts what it writes; without results that are read by range it may, as its transform does."""
        orders = [step.row_order for step in self.region.steps if step.is_numbered]
        return not orders or any(order is None or order.is_sorted for order in orders)

    @property
    def _writes_for_others(self) -> bool:
        """Whether other regions read any of its results; what only sinks get is written as the author has it."""
        sinks = {sink.result for sink in self.region.sinks}
        return any(step.result not in sinks for step in self.region.steps)

    def whole(self) -> Piece:
        rescaled = {name: files.span for name, files in self.reads.rescaled.items()}
        return Piece(self.subpartitions, self.reads.files, rescaled=rescaled)

    @property
    def largest_cut(self) -> int:
        """Most pieces that it can be cut into."""
        if why_it_stays_whole(self.region):
            return 1
        whole = self.whole()
        return len(whole.subpartitions) if whole.subpartitions else most_files(whole)

    def pieces(self, inputs: Inputs) -> list[Piece]:
        """The whole, or twice as many pieces after every failure for want of memory."""
        if not self.memory_failures or why_it_stays_whole(self.region):
            return [self.whole()]
        whole = self.whole()
        file_bytes = {name: files.bytes_in(files.span) for name, files in self.reads.rescaled.items()}
        return cut_pieces(whole, self._subpartition_bytes(inputs), 2**self.memory_failures, file_bytes)

    def _subpartition_bytes(self, inputs: Inputs) -> list[int]:
        span = self.subpartitions
        if span is None:
            return []
        totals = [0] * len(span)
        for entry in self.region.inputs:
            if entry.is_ranged:
                read = self.files(entry, inputs)
                sizes = bytes_by_subpartition(each.manifest.result(entry.result) for each in read)
                totals = [total + size for total, size in zip(totals, sizes[span.start : span.stop], strict=True)]
        return [0 if span.start + index in self.left_out else total for index, total in enumerate(totals)]


@dataclass(slots=True)
class AttemptWork:
    """One attempt under way: its inputs, its pieces, and the results that it has written."""

    spec: SubtaskSpec
    attempt: SubtaskAttempt
    inputs: Inputs
    pieces: Sequence[Piece]
    results: dict[tuple[int | None, str], ResultManifest] = field(default_factory=dict)

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
        return self.attempt.operation_id(self.spec.folder, number, piece.number)

    def build_plan(self, number: int, piece: Piece) -> bytes:
        """The write command of one step, always the same bytes for the same attempt and inputs."""
        from airflow_abs.spark.connect.protocol import protos

        step = self.spec.region.steps[number]
        template = protos().Relation()
        template.ParseFromString(self._read_template(number, step))
        own = mix_in_subtask(template, template_columns(step), self.attempt.index, piece.number or 0)
        bound = bind(own, self._bindings(step, piece))
        rename_views(bound, self.operation_id(number, piece).replace("-", ""))
        bound = observe(bound, self.operation_id(number, piece), step)
        target = uri_for_spark(self._path(step, piece))
        command = write_files(bound, target, step.format, step.options, step.partition_by)
        plan: bytes = command.SerializeToString(deterministic=True)
        return plan

    def measure(self, step: PlannedStep, piece: Piece, found: Observed) -> None:
        path = self._path(step, piece)
        measured = measure_result(self.spec.folder, path, step, found.rows, found.checksum, found.tallies)
        self.results[piece.number, step.result] = measured

    def note(self) -> None:
        """Store what is written so far, for a try that goes on behind it, if one may."""
        if keeps_steps(self.spec.region):
            results = {name: result for (_, name), result in self.results.items()}
            own = self.attempt
            note_written(self.spec.folder, Manifest(own.region, own.index, own.attempt, own.decision, 0.0, results))

    def merged(self) -> dict[str, ResultManifest]:
        """One result for all pieces of it."""
        names = dict.fromkeys(step.result for step in self.spec.region.steps)
        return {
            name: merge_results([result for (_, other), result in self.results.items() if other == name])
            for name in names
        }

    def _path(self, step: PlannedStep, piece: Piece) -> ExchangePath:
        return self.spec.folder.result_path(
            self.attempt.region, self.attempt.index, self.attempt.attempt, step.result, piece.number
        )

    def _read_template(self, number: int, step: PlannedStep) -> bytes:
        path = self.spec.folder.step_path(self.spec.region.name, number)
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
        )
        return coalesce(relation, 1) if step.shuffles and self.spec.runs_on_one_core else relation

    def _read_local(self, result: ResultManifest) -> Relation:
        paths = self._paths(files_for_range(result, result.all))
        return read_result(paths, schema=result.schema, numbered=result.subpartitions > 1)

    def _paths(self, files: Sequence[ResultFile]) -> list[str]:
        return [uri_for_spark(self.spec.folder.file_path(file.path)) for file in files]
