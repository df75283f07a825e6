"""Worlds in which runs publish to one table: under several plans, after renames, next to others, and over restores."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Literal

from deltalake.transaction import AddAction

from airflow_abs.exchange.errors import CommitError, ExchangeError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.target_table import TableMode, TargetTable
from airflow_abs.exchange.records.plan import JobPlan
from airflow_abs.tables.delta.data_files import NewFile
from airflow_abs.tables.delta.publish import VersionPublication
from airflow_abs.tables.delta.target import read_target
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.iceberg.publish import SnapshotPublication
from airflow_abs.tables.sink import RunFiles
from tests.model.actors import Actor, Clock
from tests.model.table_formats import DataFile, DeltaTable, History, IcebergTable, Step, Version, read_log
from tests.model.table_sql import OID, Database, Session, SqlPublication
from tests.model.world import ViolationError, World

Format = Literal["iceberg", "delta", "postgres"]

_FILES = 2
_TRIES = 3
"""Of a task, as long as its errors say that another one may help."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The task `commit` of one run, under one of its plans: a later one has a higher number, and other rows."""

    run: str
    plan: int = 1
    vertex: str = "total"
    installation: str = "prod"
    mode: TableMode = "append"

    @property
    def owner(self) -> tuple[str, str]:
        return (self.installation, self.run)

    @property
    def digest(self) -> str:
        """Of the rows."""
        return hashlib.sha256(f"{self.owner} {self.plan}".encode()).hexdigest()


def publisher_of(commit: Commit) -> Publisher:
    """As a plan names it."""
    plan: Any = SimpleNamespace(
        installation=commit.installation, generation=commit.plan, former_sinks=("total", "renamed"), former_jobs=()
    )
    return JobPlan.publisher(plan, JobFolder(SimpleNamespace(), "dag", commit.run, "job"), commit.vertex)  # type: ignore[arg-type]


@dataclass
class TableScenario:
    """Who meets at a table, planned before anything happens, in this order.

    Args:
        commits: the same one twice is a task that is cleared by itself, or tried twice.
        strangers: who append a file each, by another engine.
        restores: how often somebody takes the table back by one version.
        expires: how often somebody lets all earlier snapshots expire; Iceberg only.
        renames: how often somebody gives the table another name; PostgreSQL only, whose commits are planned when they
            begin.
        loses_answers: whether the first commit of each task happens and nobody is told.
        name: of a publisher, from what is committed.
    """

    format: Format
    commits: Sequence[Commit]
    strangers: int = 0
    restores: int = 0
    expires: int = 0
    renames: int = 0
    kills: int = 0
    loses_answers: bool = False
    name: Callable[[Commit], Publisher] = publisher_of

    def build(self) -> World:
        return _Table(self).world()


@dataclass
class _Table:
    """One world, and all that its invariants remember: whose every file is, and what each actor saw at first."""

    scenario: TableScenario
    history: History = field(default_factory=History)
    owners: dict[str, Commit | None] = field(default_factory=dict)
    seen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    actors: list[Actor] = field(default_factory=list)
    by: Actor | None = None
    lost: set[str] = field(default_factory=set)

    def world(self) -> World:
        scenario = self.scenario
        self.database = Database(self.history)
        self._append_foreign("old")
        self.history.on_commit = self._committed
        planned = self._target()
        for number, commit in enumerate(scenario.commits):
            target = replace(planned, mode=commit.mode)
            name = f"{commit.installation} {commit.run}, plan {commit.plan} #{number}"
            self.actors.append(Actor(name, lambda actor, it=commit, to=target: self._run_task(actor, it, to)))
        for number in range(scenario.strangers):
            self.actors.append(Actor(f"stranger {number}", self._append_as_stranger))
        for number in range(scenario.restores):
            self.actors.append(Actor(f"restore {number}", self._restore))
        for number in range(scenario.expires):
            self.actors.append(Actor(f"expire {number}", self._expire))
        for number in range(scenario.renames):
            self.actors.append(Actor(f"rename {number}", self._rename))
        return World(
            self.actors,
            Clock(),
            self._check,
            self._finish,
            self._state,
            expected=(CommitError, TableError),
            kills=scenario.kills,
        )

    def _state(self) -> int:
        versions = tuple((each.files, each.parent) for each in self.history.versions)
        return hash((versions, self.history.current, len(self.history.expired)))

    def _run_task(self, actor: Actor, commit: Commit, target: TargetTable) -> Any:
        """As Airflow does: again, if the error says that this may help."""
        for number in range(_TRIES):
            try:
                return self._publish(actor, commit, target)
            except ConnectionError:
                continue
            except ExchangeError as error:
                if not error.restartable or number == _TRIES - 1:
                    raise
        raise TableError("no try is left")

    def _publish(self, actor: Actor, commit: Commit, target: TargetTable) -> Any:
        def step() -> None:
            actor.call()
            self.by = actor
            if self.scenario.format != "postgres":
                look()

        def look() -> None:
            self.seen.setdefault(actor.name, self.history.head.files)

        def load(kind: Any) -> Any:
            step()
            table = kind(self.history, step)
            actor.told((table._at.number, len(self.history.expired)))
            return table

        shared: dict[str, Any] = {
            "target": target,
            "publisher": self.scenario.name(commit),
            "digest": commit.digest,
            "count": _FILES,
            "wait": lambda seconds: None,
            "on_step": lambda done: self._lose_answer(actor, done),
        }
        if self.scenario.format == "postgres":
            return self._publish_by_sql(actor, commit, target, step, look)
        if self.scenario.format == "iceberg":
            publication: Any = SnapshotPublication(
                load=lambda: load(IcebergTable),
                make_files=lambda table, prefix: [DataFile(name) for name in self._make(actor, commit, prefix)],
                **shared,
            )
        else:
            folder: Any = SimpleNamespace(read=lambda name: read_log(self.history, name))
            publication = VersionPublication(
                load=lambda: load(DeltaTable),
                folder=folder,
                make_files=lambda prefix: [_new_file(name) for name in self._make(actor, commit, prefix)],
                **shared,
            )
        done = publication.publish()
        self._check_there(actor, commit)
        return done

    def _publish_by_sql(self, actor: Actor, commit: Commit, target: TargetTable, step: Step, look: Step) -> Any:
        """Planned when it begins: a table that is renamed later is not found."""
        step()
        target = replace(target, details={"table": self.database.name, "where": None, "oid": OID})
        files: Any = self._make(actor, commit, f"airflow-abs-{commit.plan}")

        @contextmanager
        def open_transaction() -> Iterator[Session]:
            session = Session(self.database, step, look)
            try:
                yield session
            finally:
                session.rollback()

        run = RunFiles(self.scenario.name(commit), commit.digest, files)
        properties: Any = {"open": open_transaction}
        done = SqlPublication(target, run, properties, lambda done: self._lose_answer(actor, done)).publish()
        self._check_there(actor, commit)
        return done

    def _make(self, actor: Actor, commit: Commit, prefix: str) -> list[str]:
        names = [f"{prefix}-{len(self.owners)}-{number:05d}.parquet" for number in range(_FILES)]
        self.owners.update(dict.fromkeys(names, commit))
        return names

    def _lose_answer(self, actor: Actor, step: str) -> None:
        if step == "committed" and self.scenario.loses_answers and actor.name not in self.lost:
            self.lost.add(actor.name)
            raise ConnectionError

    def _target(self) -> TargetTable:
        if self.scenario.format == "delta":
            table: Any = DeltaTable(self.history, lambda: None)
            return read_target("t", table, conn_id="", mode="append")
        if self.scenario.format == "postgres":
            return TargetTable("w.t", "", "append", "u", '{"fields": [{"name": "id"}]}')
        snapshot = IcebergTable(self.history, lambda: None).current_snapshot().snapshot_id
        return TargetTable("t", "", "append", "u", "", details={"spec_id": 0, "schema_id": 0, "snapshot": snapshot})

    def _append_as_stranger(self, actor: Actor) -> None:
        actor.call()
        while "table" in self.database.locks:
            actor.call()
        self.by = actor
        self._append_foreign(actor.name)

    def _append_foreign(self, name: str) -> None:
        file = f"{name}.parquet"
        self.owners[file] = None
        if self.scenario.format == "postgres":
            self.database.append(file)
        else:
            self.history.commit(self.history.current, [file])

    def _restore(self, actor: Actor) -> None:
        """To the version before the current one."""
        actor.call()
        self.by = actor
        parent = self.history.head.parent
        if parent and parent not in self.history.expired:
            self.history.restore(parent)

    def _expire(self, actor: Actor) -> None:
        actor.call()
        if self.scenario.format == "iceberg":
            self.history.expire()

    def _rename(self, actor: Actor) -> None:
        actor.call()
        while self.database.users:
            actor.call()
        self.database.name += "_new"

    def _committed(self, before: Version, now: Version) -> None:
        """Look at every commit as it happens."""
        if now.restored is not None or not now.told:
            return
        (commit,) = {self.owners[file] for file in now.added} or {None}
        if commit is None:
            return
        assert self.by is not None
        for file in sorted(set(before.files) - set(now.files)):
            other = self.owners[file]
            if other is not None and other.owner == commit.owner:
                continue
            if commit.mode == "append":
                self.problems.append(f"{self.by.name} appends, and {_told(file, other)} is gone")
            elif file not in self.seen[self.by.name]:
                self.problems.append(f"{self.by.name} overwrites {_told(file, other)}, which came after it had begun")
        line = list(self.history.lineage())[1:]
        known = [each for each in self.history.versions[: now.number] if each.number not in self.history.expired]
        earlier = [self._of(version) for version in (*line, *known)]  # what was taken back and expired is nowhere
        if any(each is not None and each.owner == commit.owner and each.plan > commit.plan for each in earlier):
            self.problems.append(f"{self.by.name} publishes after a later plan of its run did")
        if commit in map(self._of, line):
            self.problems.append(f"{self.by.name} publishes what was published already")

    def _of(self, version: Version) -> Commit | None:
        return self.owners[version.added[0]] if version.added else None

    def _check(self) -> None:
        held: dict[tuple[str, str], list[Commit]] = {}
        for file in self.history.head.files:
            if (commit := self.owners[file]) is not None:
                held.setdefault(commit.owner, []).append(commit)
        for owner, commits in held.items():
            plans = {commit.plan for commit in commits}
            if len(plans) > 1 or len(commits) != _FILES:
                self.problems.append(f"the table holds {len(commits)} files of {owner}, of the plans {sorted(plans)}")
        if self.problems:
            raise ViolationError(self.problems[0])

    def _check_there(self, actor: Actor, commit: Commit) -> None:
        """Who says that it is published, is: its rows are there, or others have replaced them since."""
        mine = [file for file, owner in self.owners.items() if owner == commit]
        if set(mine) & set(self.history.head.files):
            return
        for version in self.history.lineage():
            if set(mine) & set(version.files):
                return  # and a later commit took them out
        self.problems.append(f"{actor.name} says that it is published, and the table has never come from that")

    def _finish(self) -> None:
        """Whoever comes next can publish."""
        commit = Commit("next")
        target, before = self._target(), self.history.head.files
        self.lost.add("next")
        actor = Actor("next", lambda it: self._publish(it, commit, target))
        actor.start()
        while not actor.is_over:
            actor.step()
        if actor.error is not None:
            raise ViolationError(f"the next run cannot publish: {actor.error!r}") from actor.error
        if set(before) - set(self.history.head.files):
            raise ViolationError("the next run has appended, and others' files are gone")


def _told(file: str, owner: Commit | None) -> str:
    return f"a file of {owner.installation} {owner.run}" if owner is not None else file


def _new_file(name: str) -> NewFile:
    return NewFile(AddAction(name, 1, {}, int(time.time()), True, "{}"), ())
