"""Worlds in which `gc` meets runs in one exchange on an object store, beside files that nobody of ours wrote."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_abs.exchange.errors import TargetBusyError
from airflow_abs.exchange.paths import JobFolder, escape
from airflow_abs.exchange.publish.object_store import StoreCommit
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.record import StagedFile
from airflow_abs.exchange.runs.cleaning import delete_expired, find_expired, release_job
from airflow_abs.exchange.runs.root_marker import mark_root
from airflow_abs.exchange.storage.locations import Location
from airflow_abs.exchange.storage.whole_files import write_atomic, write_json
from tests.model.actors import Actor, Clock
from tests.model.publishing import TARGET, InlineExecutor
from tests.model.store import ModelFileSystem, ModelStore
from tests.model.world import ViolationError, World

ROOT = "/exchange"
EXPIRES_SECONDS = 5_000.0
FOREIGN = (
    f"{ROOT}/sales/orders/ds=2026-01-01/part.parquet",
    f"{ROOT}/dag/old/job/notes.txt",
    f"{ROOT}/dag/old/job/orders/notes.txt",
    f"{ROOT}/dag/run 0/notes.txt",
    f"{ROOT}/README",
)


@dataclass
class CleaningScenario:
    """One run that has ended long ago, `runs` that plan, publish and release, and `collectors` that clean."""

    runs: int = 1
    collectors: int = 1
    kills: int = 0
    sleeps: int = 0
    marked: bool = True

    def build(self) -> World:
        return _Exchange(self).world()


@dataclass
class _Exchange:
    scenario: CleaningScenario
    store: ModelStore = field(default_factory=ModelStore)
    clock: Clock = field(default_factory=Clock)
    actors: list[Actor] = field(default_factory=list)
    needed: set[str] = field(default_factory=set)
    alive: set[tuple[str, str]] = field(default_factory=set)

    def world(self) -> World:
        self.store.now = self.clock
        root = Location(ModelFileSystem(self.store), ROOT)
        old = JobFolder(root, "dag", "old", "job")
        self._plan(old)
        write_atomic(old.result_path("orders", 0, 1, "sink") / "part-0", b"old")
        if self.scenario.marked:
            mark_root(root)
        for path in FOREIGN:
            self.store.put(path, b"foreign")
        self.store.times = dict.fromkeys(self.store.objects, 0.0)
        for number in range(self.scenario.runs):
            self.alive.add(("dag", escape(f"run {number}")))  # queued: Airflow knows it before its first task
            self.actors.append(Actor(f"run {number}", lambda actor, it=number: self._run(actor, it)))
        for number in range(self.scenario.collectors):
            self.actors.append(Actor(f"gc {number}", self._collect))
        return World(
            self.actors,
            self.clock,
            self._check,
            self._finish,
            lambda: hash(tuple(sorted(self.store.objects.items()))),
            expected=(TargetBusyError,),
            kills=self.scenario.kills,
            sleeps=self.scenario.sleeps,
        )

    def _plan(self, folder: JobFolder) -> None:
        write_atomic(folder.step_path("orders", 0), b"template")
        write_json(folder.plan_path, {"id": "plan", "regions": []})

    def _run(self, actor: Actor, number: int) -> None:
        fs = ModelFileSystem(self.store, actor)
        run = f"run {number}"
        folder = JobFolder(Location(fs, ROOT), "dag", run, "job")
        try:
            self._plan(folder)
            mark_root(folder.root)
            staged = folder.result_path("orders", 0, 1, "sink") / "part-0"
            write_atomic(staged, run.encode())
            self.needed.add(staged.path)  # type: ignore[attr-defined]
            file = StagedFile(staged, "part-0", len(run), 1)
            target = Location(fs, f"{TARGET}/{number}")
            commit = StoreCommit(
                target, Publisher(run), lambda step: None, now=self.clock, pool=InlineExecutor, threads=1
            )
            commit.publish([file], "overwrite")
            self.needed.discard(staged.path)  # type: ignore[attr-defined]
            release_job(folder)
        finally:
            self.alive.discard(("dag", escape(run)))
            self.needed = {path for path in self.needed if f"/{escape(run)}/" not in path}

    def _collect(self, actor: Actor) -> int:
        def is_alive(dag: str, run: str) -> bool:
            actor.call()
            actor.told(found := (dag, run) in self.alive)
            return found

        root = Location(ModelFileSystem(self.store, actor), ROOT)
        expired = find_expired(root, EXPIRES_SECONDS, self.clock(), is_alive)
        return len(list(delete_expired(expired, is_alive)))

    def _check(self) -> None:
        for path in FOREIGN:
            if self.store.objects.get(path) != b"foreign":
                raise ViolationError(f"{path} is gone, which nobody of ours wrote")
        if gone := self.needed - self.store.objects.keys():
            raise ViolationError(f"{sorted(gone)} are gone, which a run that is not over needs")

    def _finish(self) -> None:
        """Everything of runs that are over goes in the end."""
        self.clock.seconds += 2 * EXPIRES_SECONDS
        root = Location(ModelFileSystem(self.store), ROOT)
        list(delete_expired(find_expired(root, EXPIRES_SECONDS, self.clock())))
        self._check()
        left = self.store.find(ROOT).keys() - set(FOREIGN) - {f"{ROOT}/_airflow_abs_exchange"}
        planned = [path for path in left if path.endswith("/plan.json")]
        if planned:
            raise ViolationError(f"{sorted(planned)} are left of runs that are over")
