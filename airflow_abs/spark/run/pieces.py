"""Cutting a subtask that ran out of memory into pieces: smaller ranges of the same input, one after the other.

A piece is what a subtask of a larger fan-out would be: consecutive subpartitions, so that all rows of a key stay
together, and a share of the files, of sources and of rescale inputs. So pieces give the rows that the whole would give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_abs.core.decide.ranges import IndexRange, cut_by_bytes
from airflow_abs.exchange.records.plan import PlannedRegion
from airflow_abs.exchange.sources.listing import SourceFile


@dataclass(frozen=True, slots=True)
class Piece:
    """What one Spark operation reads. `number` is None for the whole, which is not cut.

    `files` are those of sources. `rescaled` are ranges of the files of rescale inputs, numbered through; an input of
    which nothing is read is not in it.
    """

    subpartitions: IndexRange | None
    files: Mapping[str, Sequence[SourceFile]]
    number: int | None = None
    rescaled: Mapping[str, IndexRange] = field(default_factory=dict)


def cut_pieces(
    whole: Piece,
    subpartition_bytes: Sequence[int],
    count: int,
    file_bytes: Mapping[str, Sequence[int]] | None = None,
) -> list[Piece]:
    """Cut the whole into at most `count` pieces of about equal bytes.

    Args:
        whole: the subtask's input.
        subpartition_bytes: bytes of each of its subpartitions, over all inputs that are read by range; empty if none.
        count: number of pieces wanted; fewer come back if there are fewer subpartitions and files.
        file_bytes: bytes of each file within `whole.rescaled`, by input.
    """
    ranges = _cut_range(whole.subpartitions, subpartition_bytes, count)
    made = len(ranges) if ranges else min(count, most_files(whole))
    if made <= 1:
        return [whole]
    rescaled = {name: _cut_range(span, (file_bytes or {})[name], made) for name, span in whole.rescaled.items()}
    files = {name: _cut_files(listed, made) for name, listed in whole.files.items()}
    return [
        Piece(
            subpartitions=ranges[number] if ranges else None,
            files={name: groups[number] for name, groups in files.items()},
            number=number,
            rescaled={name: spans[number] for name, spans in rescaled.items() if number < len(spans)},
        )
        for number in range(made)
    ]


def most_files(whole: Piece) -> int:
    """Of one source or rescale input; at least 1."""
    return max(1, *map(len, whole.files.values()), *map(len, whole.rescaled.values()), 1)


def why_it_stays_whole(region: PlannedRegion) -> str | None:
    """Why a region's subtask must not be cut, however large; None if it may."""
    if region.single_subtask_reason is not None:
        return region.single_subtask_reason
    if region.parallelism == 1:
        return "its parallelism is set to 1, so its transform may need all rows at once"
    if region.subpartitions == 1:
        return "its max_parallelism is 1, so its transform may need all rows at once"
    return None


def keeps_steps(region: PlannedRegion) -> bool:
    """Whether a try resumes after steps of an earlier one, whose pieces could not be told apart."""
    return len(region.steps) > 1 and why_it_stays_whole(region) is not None


def _cut_range(whole: IndexRange | None, sizes: Sequence[int], count: int) -> list[IndexRange]:
    if whole is None or not sizes:
        return []
    cuts = cut_by_bytes(sizes, min(count, len(whole)))
    return [IndexRange(whole.start + cut.start, whole.start + cut.stop) for cut in cuts]


def _cut_files(files: Sequence[SourceFile], count: int) -> list[Sequence[SourceFile]]:
    """Exactly `count` groups; the last ones are empty if there are fewer files."""
    if not files:
        return [()] * count
    cuts = cut_by_bytes([file.bytes for file in files], min(count, len(files)))
    groups: list[Sequence[SourceFile]] = [files[cut.start : cut.stop] for cut in cuts]
    return groups + [()] * (count - len(groups))
