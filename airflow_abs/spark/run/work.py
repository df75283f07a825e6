"""What one attempt reads, which Spark commands it sends, and what it has written so far."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from airflow_abs.core.decide.parallelism import divide_up
from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.decide.spark_tasks import runs_on_one_core, shuffle_partitions, source_task_bytes
from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.paths import JobFolder, uri_for_spark
from airflow_abs.exchange.records.decisions import StoredDecision, read_decision
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
    PlannedSource,
    PlannedStep,
    read_plan,
)
from airflow_abs.exchange.results.measuring import measure_result, merge_results
from airflow_abs.exchange.sources.splits import reader_options
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.exchange.storage.whole_files import read_bytes
from airflow_abs.spark.connect.operations import derive_id
from airflow_abs.spark.relations import (
    Relation,
    coalesce,
    count_rows,
    read_files,
    read_result,
    select_columns,
    write_files,
)
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.input_files import FilesOfProducer, files_of_producers, producers_read
from airflow_abs.spark.run.pieces import Piece, cut_pieces, most_files, why_it_stays_whole
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
    index: int
    plan: JobPlan
    region: PlannedRegion
    stored: StoredDecision
    memory_failures: int = 0

    @classmethod
    def load(cls, folder: JobFolder, attempt: SubtaskAttempt, memory_failures: int = 0) -> SubtaskSpec:
        """Read it from the exchange.

        Raises:
            ExchangeError: plan or decision is missing, damaged, or not the one that mapped this subtask.
        """
        plan = read_plan(folder)
        stored = read_decision(folder, attempt.region, digest=attempt.decision)
        stored.check_fits(plan.region(attempt.region), str(folder.decision_path(attempt.region)))
        return cls(folder, attempt.index, plan, plan.region(attempt.region), stored, memory_failures)

    @property
    def subpartitions(self) -> IndexRange | None:
        return self.stored.decision.subtasks[self.index].subpartitions

    @property
    def runs_on_one_core(self) -> bool:
        """Whether its inputs are read without parallelism, which spares every shuffle."""
        decision = self.stored.decision
        alone = runs_on_one_core(decision.parallelism, self.plan.slots, decision.largest_bytes)
        return alone and not self.region.sources and not self.memory_failures

    def describe(self) -> str:
        """``enriched[3] of 8 (subpartitions [4, 8), 1.5 MB)``."""
        from airflow_abs.core.wording import format_bytes

        decision = self.stored.decision
        reads = f"subpartitions {self.subpartitions}" if self.subpartitions else "files"
        size = format_bytes(decision.subtasks[self.index].bytes)
        vertices = " -> ".join(self.region.vertices)
        return f"{self.region.name}[{self.index}] of {decision.parallelism} ({reads}, {size}; vertex {vertices})"

    def producers(self, entry: PlannedInput) -> Collection[int]:
        """The producer's subtasks that wrote what this one reads of an input."""
        return producers_read(self.stored, self.index, entry)

    def files(self, entry: PlannedInput, inputs: Inputs, piece: Piece | None = None) -> list[FilesOfProducer]:
        """What this one (or a piece of it) reads of an input."""
        wanted = set(self.producers(entry))
        read = [manifest for manifest in inputs[entry.region] if manifest.index in wanted]
        return files_of_producers(self.stored, entry, read, piece or self.whole())

    @property
    def left_out(self) -> frozenset[int]:
        """Hot subpartitions within its range, which others read."""
        decision = self.stored.decision
        if self.subpartitions is None or decision.subtasks[self.index].hot_part:
            return frozenset()
        return decision.hot_subpartitions.intersection(self.subpartitions)

    def settings(self) -> dict[str, str]:
        """Configuration of the attempt's session; of first attempts the same for all subtasks of the decision."""
        decision = self.stored.decision
        largest = decision.largest_bytes
        slots = self.plan.slots
        # Spark would cut the files of every subtask for all slots of the cluster, and write as many files.
        cut = {"spark.sql.files.minPartitionNum": str(divide_up(slots, decision.parallelism))} if slots else {}
        if self.region.sources:
            cut["spark.sql.files.maxPartitionBytes"] = str(source_task_bytes(largest))
        else:
            cut["spark.sql.sources.fileCompressionFactor"] = _ROWS_OVER_FILES
        if self.runs_on_one_core:  # else Spark would shuffle all the same where the whole files exceed 128 MB
            cut["spark.sql.maxSinglePartitionBytes"] = "1t"
        return cut | {
            "spark.sql.shuffle.partitions": str(max(shuffle_partitions(largest), slots or 1)),
            # Spark 4.2.0 hangs for ever in a Python UDF right above a columnar scan (SPARK-58241).
            "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
            "spark.scheduler.pool": derive_id(self.folder.dag_id, self.folder.run_id),
            **self.region.spark_conf,
        }

    def whole(self) -> Piece:
        files = {source.name: self.stored.files_of(self.index, source.name) for source in self.region.sources}
        return Piece(self.subpartitions, files, rescaled=self.stored.decision.subtasks[self.index].files)

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
        whole, rows = self.whole(), self.stored.measured_by_producer
        file_bytes = {
            name: list(chain.from_iterable(rows[name]))[span.start : span.stop] for name, span in whole.rescaled.items()
        }
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
        own = mix_in_subtask(template, step.columns, self.attempt.index, piece.number or 0)
        bound = bind(own, self._bindings(step, piece))
        rename_views(bound, self.operation_id(number, piece).replace("-", ""))
        if step.format != "parquet" or step.row_hash:
            bound = count_rows(bound, self.operation_id(number, piece), step.row_hash)
        target = uri_for_spark(self._path(step, piece))
        command = write_files(bound, target, file_format=step.format, options=step.options)
        plan: bytes = command.SerializeToString(deterministic=True)
        return plan

    def measure(self, step: PlannedStep, piece: Piece, rows: int | None, checksum: int | None) -> None:
        measured = measure_result(self.spec.folder, self._path(step, piece), step, rows, checksum)
        self.results[piece.number, step.result] = measured

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
            bindings[source.placeholder] = partial(self._read_source, source, piece)
        for entry in self.spec.region.inputs:
            bindings[entry.placeholder] = partial(self._read_input, entry, step, piece)
        for placeholder, result in step.local.items():
            bindings[placeholder] = partial(self._read_local, self.results[piece.number, result])
        return bindings

    def _read_source(self, source: PlannedSource, piece: Piece) -> Relation:
        files = [file.path for file in piece.files[source.name]]
        options = reader_options(source.files, piece.files[source.name])
        relation = read_files(files, file_format=source.files.format, schema=source.schema, options=options)
        return select_columns(relation, [field["name"] for field in json.loads(source.schema)["fields"]])

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
