"""Which subtasks must rerun because they were made from outdated rows.

Flink's rule (FLIP-1, `RestartPipelinedRegionFailoverStrategy`): every consumer of a result that is produced again
reruns, and so on. Flink restarts it at once; here the answer follows from what every subtask has recorded about its
reads, so it is the same for every caller, at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

Subtask = tuple[str, int]
"""Region and index."""

ReadSpan = tuple[int, int, int]
"""Subtasks [start, stop) of a producer, and the attempt of theirs that was read."""


@dataclass(frozen=True, slots=True)
class Made:
    """The output of a subtask. `counts` are the attempts that wrote its current rows; `read` says from which attempts
    they were made, by producer region."""

    counts: range
    read: Mapping[str, Sequence[ReadSpan]] = field(default_factory=dict)


def find_outdated(made: Mapping[str, Mapping[int, Made | None]]) -> dict[Subtask, Subtask]:
    """The subtasks that must rerun, producers first, each with the one whose rows it must read again.

    Args:
        made: of all subtasks, by region, producers first; None for one without a record. Regions
            that are not in it never change their rows.
    """
    outdated: dict[Subtask, Subtask] = {}
    for region, subtasks in made.items():
        for index, each in subtasks.items():
            cause = (region, index) if each is None else _find_cause(each, made, outdated)
            if cause is not None:
                outdated[region, index] = cause
    return outdated


def _find_cause(
    each: Made, made: Mapping[str, Mapping[int, Made | None]], outdated: Collection[Subtask]
) -> Subtask | None:
    for producer, spans in each.read.items():
        if producer not in made:
            continue
        now = made[producer]
        for start, stop, attempt in spans:
            for index in range(start, stop):
                counts = now.get(index)
                if counts is None or attempt not in counts.counts or (producer, index) in outdated:
                    return producer, index
    return None
