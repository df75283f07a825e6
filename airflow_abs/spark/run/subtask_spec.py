"""One subtask as planned and decided: what it reads, in which pieces, and with which settings of Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_abs.core.decide.hot_subpartitions import ROW_CLASSES, ProducerShare
from airflow_abs.core.decide.parallelism import divide_up
from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.decide.spark_tasks import (
    SORTED_IN_MEMORY,
    runs_on_one_core,
    shuffle_partitions,
    source_task_bytes,
)
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import Manifest, ResultFile, bytes_by_subpartition, files_for_range
from airflow_abs.exchange.records.plan import JobPlan, PlannedInput, PlannedRegion, read_plan
from airflow_abs.exchange.records.slices import Slice, read_slice
from airflow_abs.exchange.records.tries import TryRecord
from airflow_abs.spark.connect.operations import EVERY_SESSION, derive_id
from airflow_abs.spark.errors import SubtaskOutOfMemoryError
from airflow_abs.spark.relations import RESULT_SETTINGS
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.pieces import Piece, cut_pieces, most_files, why_it_stays_whole

# Rows of exchange files are at least so many times larger in memory (docs/evidence). Spark, which goes by the
# files, would broadcast what does not fit.
_ROWS_OVER_FILES = "4"

Inputs = Mapping[str, Sequence[Manifest]]
"""The manifests of all subtasks of each producer region that are needed, in order."""


@dataclass(frozen=True, slots=True)
class FilesOfProducer:
    """Files with rows to be read, of one subtask's result; `cut` are by path the classes of rows to be read of files of
    which it is not all rows."""

    manifest: Manifest
    files: Sequence[ResultFile]
    cut: Mapping[str, IndexRange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubtaskSpec:
    """One subtask as planned and decided; `memory_failures` is how often it ran out of memory before.

    `retries` says whether it runs the region's steps after a failure; then these are the `steps` of its `region`.
    """

    folder: JobFolder
    plan: JobPlan
    region: PlannedRegion
    reads: Slice
    memory_failures: int = 0
    retries: bool = False

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

    def as_retry(self) -> SubtaskSpec:
        """The same work in steps whose results are kept, if `plan` has cut the region into steps; otherwise itself."""
        if not self.region.retry_steps:
            return self
        return replace(self, region=replace(self.region, steps=self.region.retry_steps), retries=True)

    def template_number(self, step: int) -> int:
        """Where the template of a step stands among the region's."""
        return step + len(self.plan.region(self.region.name).steps) if self.retries else step

    @property
    def results(self) -> tuple[str, ...]:
        """What is committed; the steps of a retry write more, for those after it."""
        return tuple(dict.fromkeys(step.result for step in self.plan.region(self.region.name).steps))

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
        """The producer's subtasks that wrote what this one reads of an input.

        All of them; of a rescale input those that wrote its files, of a hot subpartition those of its part.
        """
        if entry.is_rescale:
            files = self.reads.rescaled.get(entry.name)
            return files.located(files.span).keys() if files else ()
        part = self.reads.hot_part
        if part and part.input == entry.name:
            return part.read_producers
        return range(self.reads.producers[entry.region])

    def files(self, entry: PlannedInput, inputs: Inputs, piece: Piece | None = None) -> list[FilesOfProducer]:
        """What this one (or a piece of it) reads of an input: by number, by subpartitions, or all files."""
        piece, wanted = piece or self.whole(), set(self.producers(entry))
        manifests = [manifest for manifest in inputs[entry.region] if manifest.index in wanted]
        if entry.is_rescale:
            span, rescaled = piece.rescaled.get(entry.name), self.reads.rescaled.get(entry.name)
            if span is None or rescaled is None:  # there were fewer files than subtasks
                return []
            spans = rescaled.located(span)
            return [
                FilesOfProducer(manifest, [file for file in rescaled.cut(manifest.index, files, written) if file.rows])
                for manifest in manifests
                if (files := spans.get(manifest.index)) and (written := manifest.results[entry.result].files)
            ]
        subpartitions = None if entry.is_broadcast else piece.subpartitions
        part = self.reads.hot_part
        if part is not None and part.share is not None and part.input == entry.name:
            return [_share_of(part.share, part.subpartition, manifest, entry.result) for manifest in manifests]
        return [
            FilesOfProducer(manifest, files_for_range(result, subpartitions or result.all))
            for manifest in manifests
            for result in [manifest.results[entry.result]]
        ]

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
            # Spark would put partitions together up to 64 MB, and spill when it sorts that much.
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(SORTED_IN_MEMORY),
            # What sorts in memory is hashed there, and a join then sorts neither side. Unlike a sort, it cannot spill.
            "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": str(
                0 if self.memory_failures else SORTED_IN_MEMORY
            ),
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


def count_memory_failures(tries: Iterable[TryRecord], decision: str) -> int:
    """How many of these tries ran out of memory under this decision."""
    return sum(each.decision == decision and each.error == SubtaskOutOfMemoryError.__name__ for each in tries)


def _share_of(share: ProducerShare, subpartition: int, manifest: Manifest, result: str) -> FilesOfProducer:
    written = manifest.results[result].files
    only = IndexRange(subpartition, subpartition + 1)
    within = share.within([file.bytes_in(only) for file in written])
    cut = {written[index].path: classes for index, classes in within.items() if len(classes) < ROW_CLASSES}
    return FilesOfProducer(manifest, [written[index] for index in within], cut)
