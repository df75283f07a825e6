"""Which joins read their small side whole today, so that the large one is not hashed.

Flink makes a join a broadcast join at run time, once it has seen that a side is small (FLIP-470). Here `plan` does,
from what the side wrote on earlier days or what its sources hold today. The large side is then written without hash and
subpartition, each of its files has one reader, and the join needs no shuffle.

The proof decides where this is right: it names the inputs whose rows may be spread in any way, as long as every subtask
has all rows of the other partitioned inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_abs.core.decide.spark_tasks import SORTED_IN_MEMORY
from airflow_abs.core.durability.prediction import ROWS_OVER_FILES
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, Region
from airflow_abs.core.graph.partitioning import PARTITIONED, Partitioning
from airflow_abs.core.wording import format_bytes

MOST_BROADCAST = SORTED_IN_MEMORY // ROWS_OVER_FILES
"""Bytes of exchange files whose rows a core with half a GiB hashes in memory; every slot may do so at once."""
_MOST_IN_MEMORY = 16 * MOST_BROADCAST
_BYTES_OF_A_VALUE = 16
"""Of a number in a hash table of rows, about; a dictionary makes files of long texts far smaller than this."""
WORTH_BYTES = 64 * 2**20
"""Bytes of the large side from which on hashing it costs seconds."""


@dataclass(frozen=True, slots=True)
class BroadcastJoin:
    """The inputs of one region that are distributed otherwise than declared, and why."""

    region: str
    edges: Mapping[JobEdge, JobEdge]
    reason: str


def fits_broadcast(size: int, rows: int, columns: int) -> bool:
    """Whether Spark may hash all of an input in memory; `size` is the bytes of its files."""
    return size <= MOST_BROADCAST and rows * columns * _BYTES_OF_A_VALUE <= _MOST_IN_MEMORY


def find_broadcast_joins(
    graph: JobGraph,
    spread: Collection[JobEdge],
    row_by_row: Collection[str],
    outputs: Mapping[str, int],
    target_bytes: int,
) -> list[BroadcastJoin]:
    """The regions of today's graph whose large side need not be hashed.

    The large side comes from sources, row by row: then its rows are in the same files if it reruns, by which its
    readers know them. Whole files are dealt out evenly only where a subtask reads several of them, so nothing changes
    below a target of `WORTH_BYTES`, or where the author sets a parallelism.

    Args:
        graph: as it runs today.
        spread: edges whose rows may be spread in any way if the other partitioned inputs are read whole.
        row_by_row: vertices whose rows Spark does not move.
        outputs: bytes that each vertex may write today, rather too many than too few.
        target_bytes: that a subtask should read.
    """
    if target_bytes < WORTH_BYTES:
        return []
    stable = {region.name for region in graph.regions if not region.inputs and set(region.vertices) <= {*row_by_row}}
    alone = {
        edge for edge in spread if graph.region_of(edge.producer).name in stable and not _has_other_reader(graph, edge)
    }
    found = (_of_region(region, alone, outputs) for region in graph.regions)
    return [join for join in found if join is not None]


def _has_other_reader(graph: JobGraph, edge: JobEdge) -> bool:
    """For whom its rows would be written once more."""
    return any(other != edge and graph.crosses_regions(other) for other in graph.outputs_of(edge.producer))


def _of_region(region: Region, spread: Collection[JobEdge], outputs: Mapping[str, int]) -> BroadcastJoin | None:
    partitioned = [edge for edge in region.inputs if edge.partitioning in PARTITIONED]
    if len(partitioned) < 2 or region.single_subtask_reason is not None or region.parallelism is not None:
        return None
    large = max((edge for edge in partitioned if edge in spread), key=lambda edge: outputs[edge.producer], default=None)
    if large is None:
        return None
    small = [edge for edge in partitioned if edge is not large]
    size, rest = outputs[large.producer], sum(outputs[edge.producer] for edge in small)
    if rest > MOST_BROADCAST or size < WORTH_BYTES:
        return None
    edges = {large: _as(large, Partitioning.RESCALE)} | {edge: _as(edge, Partitioning.BROADCAST) for edge in small}
    return BroadcastJoin(region.name, edges, _explain(large, small, size, rest))


def _as(edge: JobEdge, partitioning: Partitioning) -> JobEdge:
    return replace(edge, partitioning=partitioning, keys=(), inferred=True)


def _explain(large: JobEdge, small: Sequence[JobEdge], size: int, rest: int) -> str:
    names = " and ".join(edge.input_name for edge in small)
    return (
        f"broadcast join: every subtask reads {names} whole (at most {format_bytes(rest)}; the limit is "
        f"{format_bytes(MOST_BROADCAST)}) and its own files of {large.input_name} (at most {format_bytes(size)}), "
        "which are not hashed"
    )
