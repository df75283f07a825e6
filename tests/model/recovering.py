"""Worlds in which readers recompute the same lost result: each attempt has one owner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records import recovery_claim, tries
from airflow_abs.exchange.records.recovery_claim import RecoveryClaim, claim_recovery, end_claim
from airflow_abs.exchange.records.tries import TryRecord, next_attempt, write_try
from airflow_abs.exchange.storage.locations import Location
from airflow_abs.exchange.storage.whole_files import write_atomic
from tests.model.actors import Actor, Clock
from tests.model.store import ModelFileSystem, ModelStore
from tests.model.world import ViolationError, World

Move = Callable[[JobFolder, RecoveryClaim, int, str, float], RecoveryClaim | None]


@dataclass
class RecoveringScenario:
    """`recoverers` claim, go on under the next attempt because an input was lost meanwhile, and end.

    With `restarted`, the producer's try 1 had started over as attempt 1001, and its manifest cannot be read: `known`
    says which attempt was its last.
    """

    recoverers: int = 2
    kills: int = 0
    sleeps: int = 0
    loses_answers: bool = False
    move: Move = recovery_claim.move_claim
    restarted: bool = False
    known: Callable[[JobFolder, str, int], int] = tries.last_attempt

    def build(self) -> World:
        return _Lost(self).world()


@dataclass
class _Lost:
    scenario: RecoveringScenario
    store: ModelStore = field(default_factory=ModelStore)
    clock: Clock = field(default_factory=Clock)
    owners: dict[int, set[str]] = field(default_factory=dict)

    def world(self) -> World:
        self.store.loses_answers = self.scenario.loses_answers
        if self.scenario.restarted:
            folder = JobFolder(Location(ModelFileSystem(self.store), "/exchange"), "dag", "run", "job")
            write_try(folder, "orders", 0, TryRecord(1, "d", 1001, "inputs", "committed", "", self.clock()))
            write_atomic(folder.result_path("orders", 0, 1001, "hash") / "part-0", b"rows")
            self.owners[1001] = {"try 1"}
        return World(
            [Actor(f"reader {number}", self._recover) for number in range(self.scenario.recoverers)],
            self.clock,
            self._check,
            lambda: None,
            lambda: hash(tuple(sorted(self.store.objects.items()))),
            kills=self.scenario.kills,
            sleeps=self.scenario.sleeps,
        )

    def _recover(self, actor: Actor) -> None:
        folder = JobFolder(Location(ModelFileSystem(self.store, actor), "/exchange"), "dag", "run", "job")
        lost = self.scenario.known(folder, "orders", 0) if self.scenario.restarted else 1
        claimed = claim_recovery(
            folder, "orders", 0, decision="d", owner=actor.name, lost_attempt=lost, now=self.clock()
        )
        if claimed is None:
            return
        self._own(actor, claimed.claim.attempt)
        following = next_attempt(claimed.claim.attempt)
        moved = self.scenario.move(folder, claimed.claim, following, "other inputs", self.clock())
        if moved is not None:
            self._own(actor, moved.attempt)
            end_claim(folder, moved, 1)

    def _own(self, actor: Actor, attempt: int) -> None:
        """From here on it sends Spark operations under that number."""
        self.owners.setdefault(attempt, set()).add(actor.name)

    def _check(self) -> None:
        for attempt, owners in self.owners.items():
            if len(owners) > 1:
                raise ViolationError(f"attempt {attempt} is of {' and '.join(sorted(owners))}")
