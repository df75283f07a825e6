"""Worlds in which runs publish to one table of Spark's catalog, which has no transactions: statements and files, one
after the other, on storage in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from airflow_abs.exchange.errors import CommitConflictError, CommitError, ExchangeError
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.record import StagedFile
from airflow_abs.exchange.storage.locations import Location
from airflow_abs.tables.catalog.publish import CatalogPublication
from airflow_abs.tables.catalog.run_folder import RunFile, RunFolder
from airflow_abs.tables.catalog.statements import StoredFile
from airflow_abs.tables.catalog.target import read_target
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.sink import RunFiles
from tests.model.actors import Actor, Clock, whose_turn
from tests.model.tables import Commit, publisher_of
from tests.model.world import ViolationError, World
from tests.tables.catalog.metastore import MemoryMetastore

_FILES = 2
_TRIES = 3
"""Of a task, as long as its errors say that another one may help."""
_BYTES = 7


@dataclass
class CatalogScenario:
    """Who meets at a table, planned before anything happens; see `TableScenario`.

    A commit that is killed between a change and the look after it cannot tell anybody: `kills` are for appends alone.
    """

    commits: Sequence[Commit]
    strangers: int = 0
    kills: int = 0
    name: Callable[[Commit], Publisher] = publisher_of

    def build(self) -> World:
        return _CatalogTable(self).world()


class _Storage:
    """Of fsspec what a publication asks for; files are their sizes, and show whose they are by their names."""

    protocol = "memory"

    def __init__(self, table: _CatalogTable) -> None:
        self.table = table
        self.files: dict[str, int] = {}

    def size(self, path: str) -> int:
        self.table.step()
        return self._size(path)

    def mv(self, path: str, to: str) -> None:
        self.table.step()
        with self.table.change():
            self.files[to] = self._size(path)
            del self.files[path]

    def rm_file(self, path: str) -> None:
        self.table.step()
        self._size(path)
        with self.table.change():
            del self.files[path]

    def find(self, folder: str) -> list[str]:
        self.table.step()
        return [path for path in self.files if path.startswith(f"{folder}/")]

    def put(self, path: str) -> None:
        self.table.step()
        with self.table.change():
            self.files[path] = _BYTES

    def _size(self, path: str) -> int:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]


class _Metastore(MemoryMetastore):
    """Each statement is one step; those who set a property or a location at once do not lose the other's."""

    table: _CatalogTable

    def __post_init__(self) -> None:
        self.location = "t"

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        self.table.step()
        return super().rows(statement)

    def run(self, statement: str) -> None:
        self.table.step()
        with self.table.change():
            super().run(statement)

    def list_files(self, folders: Sequence[str]) -> list[StoredFile]:
        self.table.step()
        found = [path for folder in folders for path in self.table.files_in(folder)]
        self.table.looked(found)
        return [StoredFile(path, _BYTES, 0) for path in found]


class _Publication(CatalogPublication):
    def _open(self, path: str) -> Location:
        return Location(self.open_path(""), path)  # type: ignore[arg-type]


@dataclass
class _CatalogTable:
    """One world, and what its invariants remember: whose every file is, what each actor saw when it began, and which
    files it took out of sight besides."""

    scenario: CatalogScenario
    owners: dict[str, Commit | None] = field(default_factory=dict)
    seen: dict[str, frozenset[str]] = field(default_factory=dict)
    hidden: dict[str, dict[str, str]] = field(default_factory=dict)
    rightly_gone: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    actors: list[Actor] = field(default_factory=list)
    of: dict[str, Commit] = field(default_factory=dict)

    def world(self) -> World:
        scenario = self.scenario
        self.storage = _Storage(self)
        self.catalog = _Metastore(Path("t"))
        self.catalog.table = self
        self.storage.files["t/old.parquet"] = _BYTES
        self.owners["old.parquet"] = None
        planned = replace(read_target("d.t", self.catalog, storage="", mode="append"), kind="catalog")
        for number, commit in enumerate(scenario.commits):
            name = f"{commit.installation} {commit.run}, plan {commit.plan} #{number}"
            self.of[name] = commit
            self.actors.append(Actor(name, lambda actor, it=commit, to=planned: self._run_task(actor, it, to)))
        self.planned = planned
        self.actors += [Actor(f"stranger {number}", self._append) for number in range(scenario.strangers)]
        expected = (CommitError, TableError)
        return World(
            self.actors, Clock(), self._check, self._finish, self._state, expected=expected, kills=scenario.kills
        )

    def step(self) -> None:
        """Before each call of whoever is at work."""
        if actor := self._acting():
            actor.call()

    def looked(self, found: Sequence[str]) -> None:
        """Its first listing: of where the table was a moment before, as it was told."""
        if actor := self._acting():
            self.seen.setdefault(actor.name, frozenset(path.rpartition("/")[2] for path in found))

    def _acting(self) -> Actor | None:
        turn = whose_turn()
        return next((actor for actor in self.actors if getattr(actor, "_turn", None) is turn), None)

    @contextmanager
    def change(self) -> Iterator[None]:
        """Look at what it does to the table."""
        by, before = self._acting(), self.visible
        yield
        for file in sorted(before - self.visible):
            self._taken(by, file)

    def _taken(self, by: Actor | None, file: str) -> None:
        owner = self.owners[file]
        commit = self.of.get(by.name) if by else None
        if by is None or commit is None:
            return
        if owner is not None and owner.owner == commit.owner:
            self.rightly_gone.add(file)
        elif commit.mode == "append":
            self.problems.append(f"{by.name} appends, and {file} is gone")
        elif file in self.seen[by.name]:
            self.rightly_gone.add(file)
        else:
            self.hidden.setdefault(by.name, {})[file] = f"{by.name} overwrites {file}, which came after it had begun"

    @property
    def visible(self) -> frozenset[str]:
        return frozenset(path.rpartition("/")[2] for path in self.files_in(self.catalog.location))

    def files_in(self, folder: str) -> list[str]:
        return [path for path in self.storage.files if path.rpartition("/")[0] == folder]

    def _run_task(self, actor: Actor, commit: Commit, planned: Any) -> Any:
        """As Airflow does: again, if the error says that this may help."""
        for number in range(_TRIES):
            try:
                return self._publish(commit, planned)
            except ExchangeError as error:
                if not error.restartable or number == _TRIES - 1:
                    raise
        raise TableError("no try is left")

    def _publish(self, commit: Commit, planned: Any) -> Any:
        target = replace(planned, mode=commit.mode)
        staged = tuple(StagedFile(Path(), f"part-{number}", _BYTES, 1) for number in range(_FILES))  # type: ignore[arg-type]
        run = RunFiles(self.scenario.name(commit), commit.digest, staged)
        open_path: Any = lambda path: self.storage  # noqa: E731
        publication = _Publication(target, run, self.catalog, open_path)
        for number in range(_FILES):
            name = f"{publication._prefix}{publication._digest}-{number:05d}.parquet"
            self.owners[name] = commit
        return publication.publish()

    def _append(self, actor: Actor) -> None:
        """To where the table is at this moment."""
        actor.call()
        name = f"{actor.name}.parquet"
        self.owners[name] = None
        self.storage.files[f"{self.catalog.location}/{name}"] = _BYTES

    def _state(self) -> int:
        files = tuple(sorted(self.storage.files))
        return hash((files, self.catalog.location, tuple(sorted(self.catalog.properties.items()))))

    def _check(self) -> None:
        if self.problems:
            raise ViolationError(self.problems[0])

    def _finish(self) -> None:
        """Nobody was told that all is well where rows are lost; and whoever is run once more puts things right."""
        self._check_nothing_lost()
        last = {commit.owner: commit for commit in sorted(self.scenario.commits, key=lambda each: each.plan)}
        for commit in last.values():
            self.actors = []
            self._publish(commit, self.planned)
        self._check()
        self._check_nothing_lost()
        for owner, commit in last.items():
            held = [self.owners[file] for file in self.visible]
            mine = [each for each in held if each is not None and each.owner == owner]
            if mine and (len(mine) != _FILES or set(mine) != {commit}):
                raise ViolationError(f"the table holds {len(mine)} files of {owner}, of {mine}")

    def _check_nothing_lost(self) -> None:
        ended = [actor for actor in self.actors if actor.name in self.of and actor.is_over]
        green = {self.of[actor.name] for actor in ended if actor.error is None}
        told = {self.of[actor.name] for actor in ended if isinstance(actor.error, CommitConflictError)}
        for actor in ended:
            for file, what in self.hidden.get(actor.name, {}).items():
                owner = self.owners[file]
                unaware = owner is None or (owner in green and owner not in told)
                if actor.error is None and unaware and file not in self.visible:
                    raise ViolationError(what)
        accounted = self.rightly_gone.union(self.visible, *self.hidden.values())
        for commit in green:
            newest = max(each.plan for each in green if each.owner == commit.owner)
            gone = [file for file, owner in self.owners.items() if owner == commit and file not in accounted]
            if gone and commit.plan == newest:
                raise ViolationError(f"{commit} ended well, and {gone[0]} has never been in the table, or is gone")


def _fill(self: RunFolder, target: Any, files: Sequence[RunFile]) -> None:
    """Without reading what is copied, and one file after the other."""
    storage: Any = self.place.fs
    for file in files:
        to = self.folder(file.values) / file.name
        if to.path not in storage.files:
            storage.put(to.path)


@contextmanager
def folders_in_memory() -> Iterator[None]:
    """Files are copied from nowhere."""
    with mock.patch.object(RunFolder, "fill", _fill):
        yield
