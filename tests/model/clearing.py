"""Worlds in which people clear any tasks of a run and change its source, and what `commit` lets through.

Three regions: each subtask of `raw` reads one file of the source, all of `typed` read all of `raw`, and `total` reads
`typed`. Rows are the versions of the source that they were made of.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import read_manifests
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.results.outdated import check_current
from tests.model.actors import Actor, Clock
from tests.model.world import ViolationError, World
from tests.recorded_runs import OPTIONS, MadeRegion, RecordedRun

Task = tuple[str, int]
"""A region and the index of a subtask, or -1 for what decides it; ("commit", -1)."""

_FILES, _READERS = 2, 3
_REGIONS = (
    MadeRegion("raw", files=(900,) * _FILES),
    MadeRegion("typed", inputs={"raw": Partitioning.HASH}, parallelism=_READERS),
    MadeRegion("total", inputs={"typed": Partitioning.BROADCAST}, sink="/mart/total", parallelism=1),
)
_SUBTASKS = {"raw": _FILES, "typed": _READERS, "total": 1}
_ORDER: list[list[Task]] = [
    *([(name, index) for index in indexes] for name, count in _SUBTASKS.items() for indexes in ([-1], range(count))),
    [("commit", -1)],
]
"""Tasks that wait for all before them."""

Check = Callable[[RunRecords, str], None]


@dataclass
class ClearingScenario:
    """`clears` and `edits` of the source by people while two tasks run at a time, and whoever looks at the end."""

    clears: int = 2
    edits: int = 2
    check: Check = check_current
    folder: str | None = None

    def build(self) -> World:
        return _Run(self).world()


@dataclass
class _Run:
    """One world: what is to be done, of which versions everything was made, and how often each task was tried."""

    scenario: ClearingScenario
    source: list[int] = field(default_factory=lambda: [0] * _FILES)
    pending: set[Task] = field(default_factory=lambda: {task for level in _ORDER for task in level})
    tries: dict[Task, int] = field(default_factory=dict)
    made_of: dict[Task, tuple[Any, ...]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    mixed: str = ""
    people: int = 0

    def world(self) -> World:
        scenario = self.scenario
        self.path = Path(tempfile.mkdtemp(prefix="clearing-", dir=scenario.folder))
        self.run = RecordedRun(JobFolder(self.path, "dag", "run", "job"), _REGIONS, lambda *_: 120, OPTIONS)
        self.run.write_plan()
        actors = [Actor(f"edit {number}", self._edit) for number in range(scenario.edits)]
        actors += [Actor(f"clear {number}", self._clear) for number in range(scenario.clears)]
        self.people = len(actors)
        actors += [Actor(f"slot {number}", self._work) for number in range(2)]
        return World(actors, Clock(), self._check, self._finish, self._state, close=lambda: shutil.rmtree(self.path))

    def _state(self) -> int:
        return hash((tuple(self.source), frozenset(self.pending), tuple(sorted(self.made_of.items()))))

    def _edit(self, actor: Actor) -> None:
        actor.call()
        self.people -= 1
        self.source[self._chance(actor).randrange(_FILES)] += 1

    def _clear(self, actor: Actor) -> None:
        """Any tasks that have ended, and not what comes after them; mostly some of one kind, and `commit`."""
        actor.call()
        self.people -= 1
        chance = self._chance(actor)
        share = chance.choice([0.2, 0.5, 0.8])
        ended = [task for level in _ORDER for task in level if task not in self.pending]
        self.pending |= {task for task in ended if chance.random() < share or task[0] == "commit"}

    def _chance(self, actor: Actor) -> random.Random:
        return random.Random(repr((actor.name, self.source, sorted(self.tries.items()))))  # noqa: S311

    def _work(self, actor: Actor) -> None:
        """Tasks whose turn it is, one in each step, until nobody clears any more and none is left."""
        while self.people or self.pending:
            actor.call()
            if task := self._next(actor):
                self.pending.discard(task)
                self.tries[task] = self.tries.get(task, 0) + 1
                self._do(task)

    def _next(self, actor: Actor) -> Task | None:
        waiting = next(([task for task in level if task in self.pending] for level in _ORDER if self._waits(level)), [])
        return self._chance(actor).choice(waiting) if waiting else None

    def _waits(self, level: Sequence[Task]) -> bool:
        return not self.pending.isdisjoint(level)

    def _do(self, task: Task) -> None:
        name, index = task
        if name == "commit":
            self._commit()
        elif index < 0:
            self.run.decide(name)
        else:
            made_of = {"raw": self._read_source, "typed": self._read_raw, "total": self._read_typed}[name](index)
            self.made_of[task] = made_of
            self.run.commit(name, index, attempt=self.tries[task], grown=_checksum(made_of))

    def _read_source(self, index: int) -> tuple[Any, ...]:
        return (self.source[index],)

    def _read_raw(self, index: int) -> tuple[Any, ...]:
        return tuple(self.made_of["raw", number][0] for number in range(_FILES))

    def _read_typed(self, index: int) -> tuple[Any, ...]:
        return tuple(self.made_of["typed", number] for number in range(_READERS))

    def _commit(self) -> None:
        try:
            self.scenario.check(RunRecords(self.run.folder), "total")
            digest = self.run.stored["total"].digest
            read_manifests(self.run.folder, "total", 1, decision=digest)
        except ExchangeError as error:
            self.refused.append(str(error))
            return
        published = self.made_of["total", 0]
        if len(set(published)) > 1:
            self.mixed = f"published is a mixture of {sorted(set(published))}, versions of the files of the source"
        elif published[0] != self._read_raw(0):
            self.mixed = f"published are rows of {published[0]}, and {self._read_raw(0)} count"

    def _check(self) -> None:
        if self.mixed:
            raise ViolationError(self.mixed)

    def _finish(self) -> None:
        """Once everything is cleared, it is published."""
        self.refused.clear()
        for level in _ORDER:
            for task in level:
                self.tries[task] = self.tries.get(task, 0) + 1
                self._do(task)
        self._check()
        if self.refused:
            raise ViolationError(f"all was cleared, and commit still refuses: {self.refused[0]}")


def _checksum(made_of: tuple[Any, ...]) -> int:
    """The same for the same rows."""
    return abs(hash(made_of)) % 40
