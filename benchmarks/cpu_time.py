"""CPU seconds of this process and of everything that it started, ended processes and daemons included (Linux).

Linux adds what an ended child used to its parent when the parent reaps it. This process is made the adopter of all
orphans below it, so no process ever leaves its tree, and the sum over the tree misses nobody.
"""

from __future__ import annotations

import ctypes
import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")
DRIVER = "driver"
OTHER = "other"


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """Clock ticks of one process: its own, and those of its ended and reaped children."""

    pid: int
    parent: int
    own: int
    reaped: int


def adopt_orphans() -> None:
    """Daemons that detach themselves stay below this process."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) was refused")


def read_processes(proc: Path = Path("/proc")) -> list[ProcessTimes]:
    found = []
    for folder in proc.glob("[0-9]*"):
        with suppress(OSError):  # it ended while we looked
            found.append(parse_stat((folder / "stat").read_text()))
    return found


def parse_stat(text: str) -> ProcessTimes:
    """The line of `/proc/<pid>/stat`. The name in parentheses may hold anything, parentheses too."""
    pid, _, rest = text.partition(" (")
    fields = rest.rpartition(") ")[2].split()
    own, reaped = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return ProcessTimes(int(pid), int(fields[1]), own, reaped)


def seconds_by_part(
    processes: list[ProcessTimes], root: int, parts: Mapping[str, int], split: Mapping[str, str] | None = None
) -> dict[str, float]:
    """CPU seconds by part of the tree below `root`.

    Args:
        parts: process id at the head of each part; what belongs to none is `OTHER`, `root` itself is `DRIVER`.
        split: parts of which only the head's own time counts, with the name that everything below it gets.
    """
    split = split or {}
    by_pid = {each.pid: each for each in processes}
    children = defaultdict(list)
    for each in processes:
        children[each.parent].append(each.pid)
    heads = {pid: name for name, pid in parts.items()}
    ticks: dict[str, int] = defaultdict(int)
    waiting = [(root, DRIVER, OTHER)]
    while waiting:
        pid, own_part, below = waiting.pop()
        if pid not in by_pid:
            continue
        ticks[own_part] += by_pid[pid].own
        ticks[below] += by_pid[pid].reaped
        for child in children[pid]:
            head = heads.get(child)
            waiting.append((child, head, split.get(head, head)) if head else (child, below, below))
    return {name: count / _TICKS for name, count in ticks.items()}


def difference(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """Seconds between two readings, by part."""
    return {name: round(seconds - before.get(name, 0.0), 2) for name, seconds in after.items()}
