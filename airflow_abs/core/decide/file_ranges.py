"""Distributing the files of rescale inputs: which subtask reads which files from which producers.

The files of one input are numbered through: those of producer subtask 0 first, in the order in which it wrote them,
then those of subtask 1. A subtask reads one consecutive range of them, so it meets few producers, and next to each
other. This is Flink's pointwise division by bytes (2.0) with files as the pieces that are not cut; where Flink keeps
its greedy cut, whose last range may be small, the ranges here are about equal (`cut_by_bytes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from airflow_abs.core.decide.ranges import IndexRange, cut_by_bytes


def deal_out_files(files: Mapping[str, Sequence[int]], loads: Sequence[int]) -> list[dict[str, IndexRange]]:
    """Cut the files of every rescale input into ranges of about equal bytes, at most one for each subtask.

    Args:
        files: bytes of each file, by input name. A file is never cut; one of 0 bytes has no rows.
        loads: bytes that each subtask reads already; its length is the number of subtasks.

    Returns:
        For each subtask its range of each input, without inputs that it does not read. All files are covered
        once, in order. If an input has fewer files with rows than there are subtasks, those that read least so far get
        one each; equal loads go to the lowest subtask.
    """
    dealt: list[dict[str, IndexRange]] = [{} for _ in loads]
    read = list(loads)
    for name, sizes in files.items():
        if not sizes:
            continue
        ranges = cut_by_bytes(sizes, max(1, min(len(read), count_filled(sizes))))
        lightest = sorted(range(len(read)), key=read.__getitem__)[: len(ranges)]
        for subtask, span in zip(sorted(lightest), ranges, strict=True):
            dealt[subtask][name] = span
            read[subtask] += sum(sizes[span.start : span.stop])
    return dealt


def count_filled(sizes: Sequence[int]) -> int:
    """How many of these have bytes."""
    return sum(map(bool, sizes))


def locate_files(files_by_producer: Sequence[int], span: IndexRange) -> dict[int, IndexRange]:
    """A range of files, numbered through, as a range of each producer's own files; without producers that have none.

    `files_by_producer` says how many files each producer subtask wrote.
    """
    starts = pairwise([0, *accumulate(files_by_producer)])
    return {
        producer: IndexRange(max(span.start, start) - start, min(span.stop, stop) - start)
        for producer, (start, stop) in enumerate(starts)
        if max(span.start, start) < min(span.stop, stop)
    }


def to_cuts(spans: Sequence[IndexRange | None]) -> list[int]:
    """Ranges without gaps as their cut points, for JSON; a subtask without a range has two equal ones."""
    return list(accumulate((len(span) if span else 0 for span in spans), initial=0))


def from_cuts(cuts: Sequence[int]) -> list[IndexRange | None]:
    """Inverse of `to_cuts`."""
    return [IndexRange(start, stop) if start < stop else None for start, stop in pairwise(cuts)]
