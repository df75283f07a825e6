"""Worlds in which rows of a vertex that is not deterministic are lost while its readers run and publish.

`dice` has other rows with every attempt, `odd` reads it, `total` reads both; `odd` and `total` are published. Looking,
committing and publishing are the real code; what Spark would do is a mark per attempt. A process that is killed is
followed by another try.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

from airflow_abs.core.failover import Subtask
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import MissingFileError, SupersededError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import Manifest, attempts_read, read_manifest
from airflow_abs.exchange.records.plan import JobPlan
from airflow_abs.exchange.records.recovery_claim import claim_recovery, end_claim
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.results.outdated import read_outdated
from airflow_abs.exchange.results.renewal import has_renewed, replace_rows
from airflow_abs.exchange.storage.locations import Location
from airflow_abs.execution.commit import commit_region
from tests.model.actors import Actor, Clock, Killed
from tests.model.publishing import InlineExecutor, repeatable_tokens
from tests.model.store import ModelFileSystem, ModelStore
from tests.model.world import ViolationError, World
from tests.recorded_runs import OPTIONS, MadeRegion, RecordedRun

_REGIONS = (
    MadeRegion("dice", files=(900, 900), deterministic=False),
    MadeRegion("odd", inputs={"dice": Partitioning.HASH}, parallelism=2, sink="/mart/odd"),
    MadeRegion(
        "total",
        inputs={"odd": Partitioning.BROADCAST, "dice": Partitioning.BROADCAST},
        sink="/mart/total",
        parallelism=1,
    ),
)
_SUBTASKS = {"dice": 2, "odd": 2, "total": 1}
_READS = {"dice": (), "odd": ("dice",), "total": ("odd", "dice")}
_SECONDS_PER_POLL = 10.0
_ROUNDS = 4
_PATIENCE = 2_000

Rows = frozenset[str]
"""The attempts of `dice` that rows were made of."""


@dataclass
class RenewingScenario:
    """Rows of `dice` are lost so many times; `commits` tries of the publication of `odd` run at once."""

    losses: int = 1
    commits: int = 1
    kills: int = 0

    def build(self) -> World:
        return _Run(self).world()


@cache
def _recorded() -> tuple[JobPlan, dict[Subtask, Manifest], dict[str, bytes]]:
    """The plan, what each subtask would commit, and the files of a run that is decided."""
    with tempfile.TemporaryDirectory(prefix="renewing-") as path:
        run = RecordedRun(JobFolder(Path(path), "dag", "run", "job"), _REGIONS, lambda *_: 120, OPTIONS)
        run.write_plan()
        run.run()
        made = {(region, index): each for region, found in run.manifests.items() for index, each in found.items()}
        kept = [file for file in Path(path).rglob("*.json") if file.name in ("plan.json", "decision.json")]
        return run.plan, made, {f"/exchange/{file.relative_to(path)}": file.read_bytes() for file in kept}


@dataclass
class _Run:
    scenario: RenewingScenario
    store: ModelStore = field(default_factory=ModelStore)
    clock: Clock = field(default_factory=Clock)
    lost: set[tuple[int, int]] = field(default_factory=set)
    """Of `dice`: index and attempt."""
    rows: dict[tuple[str, int, int], Rows] = field(default_factory=dict)
    published: dict[str, tuple[int, Rows]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    def world(self) -> World:
        self.plan, self.made, files = _recorded()
        for path, data in files.items():
            self.store.put(path, data)
        for index in range(2):
            self._run_subtask(None, "dice", index)
        actors = [Actor("odd", self._run_odd), Actor("total", self._run_total), Actor("loss", self._lose)]
        actors += [
            Actor(f"commit odd {number}", partial(self._commit, "odd")) for number in range(self.scenario.commits)
        ]
        actors.append(Actor("commit total", partial(self._commit, "total")))
        self.actors = actors
        return World(actors, self.clock, lambda: None, self._finish, self._state, kills=self.scenario.kills)

    def _state(self) -> int:
        return hash((tuple(sorted(self.store.objects.items())), tuple(self.published.items()), frozenset(self.lost)))

    def _folder(self, actor: Actor | None) -> JobFolder:
        return JobFolder(Location(ModelFileSystem(self.store, actor), "/exchange"), "dag", "run", "job")

    def _lose(self, actor: Actor) -> None:
        for number in range(self.scenario.losses):
            for _ in range(7):
                actor.call()
            index = number % 2
            self.lost.add((index, read_manifest(self._folder(None), "dice", index).attempt))

    def _run_odd(self, actor: Actor) -> None:
        for index in range(2):
            self._run_subtask(actor, "odd", index)
        self.done.add("odd")

    def _run_total(self, actor: Actor) -> None:
        self._wait(actor, "odd")
        self._run_subtask(actor, "total", 0)
        self.done.add("total")

    def _wait(self, actor: Actor, region: str) -> None:
        """In vain if it was killed: then `_finish` does the rest."""
        for _ in range(_PATIENCE):
            if region in self.done:
                return
            actor.call()
        raise Killed

    def _run_subtask(self, actor: Actor | None, region: str, index: int) -> None:
        """A try of Airflow's."""
        folder = self._folder(actor)
        self._rounds(actor, folder, self.made[region, index], None)

    def _rounds(self, actor: Actor | None, folder: JobFolder, made: Manifest, before: Manifest | None) -> None:
        for _ in range(_ROUNDS):
            inputs = self._ensure_inputs(actor, folder, made.region)
            if actor is not None:
                actor.call()  # Spark runs
            if not has_renewed(folder) or (inputs, []) == self._look(folder, made.region):
                break
            made = replace(made, attempt=made.attempt + (1 if made.attempt > 1000 else 1000))
        own = made.region, made.index, made.attempt
        read = [self.rows[each.region, each.index, each.attempt] for each in inputs]
        self.rows[own] = Rows({f"dice[{made.index}]@{made.attempt}"}) if not inputs else Rows().union(*read)
        found = {name: attempts_read(each for each in inputs if each.region == name) for name in _READS[made.region]}
        replace_rows(folder, self.plan, replace(made, read=found), before)

    def _ensure_inputs(self, actor: Actor | None, folder: JobFolder, region: str) -> list[Manifest]:
        for _ in range(2 * _ROUNDS):
            inputs, lost = self._look(folder, region)
            if not lost:
                return inputs
            for each in lost:
                self._recover(actor, folder, each)
        raise AssertionError("its input was lost again and again")

    def _look(self, folder: JobFolder, region: str) -> tuple[list[Manifest], list[Manifest]]:
        inputs = [read_manifest(folder, name, each) for name in _READS[region] for each in range(_SUBTASKS[name])]
        outdated = read_outdated(RunRecords(folder), *_READS[region]) if inputs and has_renewed(folder) else {}
        return inputs, [each for each in inputs if self._is_lost(each) or (each.region, each.index) in outdated]

    def _is_lost(self, manifest: Manifest) -> bool:
        return manifest.region == "dice" and (manifest.index, manifest.attempt) in self.lost

    def _recover(self, actor: Actor | None, folder: JobFolder, lost: Manifest) -> None:
        """As `Recovery` does; a renewal of the lease is left out, so that it may be over while it runs."""
        owner = actor.name if actor is not None else "nobody"
        while True:
            if read_manifest(folder, lost.region, lost.index).attempt != lost.attempt:
                return
            claimed = claim_recovery(
                folder, lost.region, lost.index,
                decision=lost.decision, owner=f"{owner} < {lost.region}[{lost.index}]", lost_attempt=lost.attempt,
                now=self.clock(),
            )  # fmt: skip
            if claimed is not None:
                break
            self.clock.seconds += _SECONDS_PER_POLL
        if read_manifest(folder, lost.region, lost.index).attempt == lost.attempt:
            made = replace(self.made[lost.region, lost.index], attempt=claimed.claim.attempt)
            self._rounds(actor, folder, made, lost)
        end_claim(folder, claimed.claim)

    def _commit(self, region: str, actor: Actor) -> None:
        self._wait(actor, region)
        self._commit_now(region, actor)

    def _commit_now(self, region: str, actor: Actor | None) -> None:
        folder = self._folder(actor)

        def renew(records: RunRecords, outdated: Mapping[Subtask, Subtask]) -> None:
            for name, index in outdated:
                self._recover(actor, folder, records.manifests(name)[index])

        commit_region(RunRecords(folder), region, partial(self._publish, actor), renew)

    def _publish(self, actor: Actor | None, records: RunRecords, region: str) -> None:
        """A target that keeps the order of generations, as all of them do."""
        found = Rows().union(*(self.rows[region, each.index, each.attempt] for each in records.manifests(region)))
        generation = records.plan.generation + records.renewals(region)
        if actor is not None:
            actor.call()
        if self.published.get(region, (0, Rows()))[0] > generation:
            raise SupersededError(f"{region}: {generation}")
        self.published[region] = generation, found

    def _finish(self) -> None:
        """Whoever was killed has another try."""
        for region, subtasks in _SUBTASKS.items():
            for index in range(subtasks):
                try:
                    read_manifest(self._folder(None), region, index)
                except MissingFileError:
                    self._run_subtask(None, region, index)
        self.clock.seconds += 1_000.0
        for region in ("odd", "total"):
            if any(each.is_killed or each.error for each in self.actors):
                self._commit_now(region, None)
        odd, total = (self.published[region][1] for region in ("odd", "total"))
        if odd != total or len(odd) != _SUBTASKS["dice"]:
            raise ViolationError(f"odd was published of {sorted(odd)}, and total of {sorted(total)}")


@contextmanager
def in_one_thread() -> Iterator[None]:
    """What is read side by side is read in turn, so that a schedule can be replayed."""

    def executor(threads: int, **_: Any) -> InlineExecutor:
        return InlineExecutor(threads)

    with ExitStack() as stack:
        stack.enter_context(repeatable_tokens())
        stack.enter_context(mock.patch("airflow_abs.exchange.records.manifest.ThreadPoolExecutor", executor))
        yield
