"""Worlds in which publishers and readers meet at one target of an object store, and what must hold in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from greenlet import greenlet

from airflow_abs.exchange.errors import CommitError, MissingFileError, TargetBusyError
from airflow_abs.exchange.publish.commit_log import CommitLog
from airflow_abs.exchange.publish.object_store import StoreCommit
from airflow_abs.exchange.publish.publisher import Publisher as _Publisher
from airflow_abs.exchange.publish.record import (
    CommitMode,
    CommitRecord,
    PublishedFile,
    StagedFile,
    is_data_file,
    partition_of,
)
from airflow_abs.exchange.storage.locations import Location
from tests.model.actors import Actor, Clock, Turn, whose_turn
from tests.model.store import ModelFileSystem, ModelStore
from tests.model.world import LONGER_THAN_ANY_LEASE, ViolationError, World

TARGET = "/mart/t"
READ_TRIES = 30


class InlineExecutor(Executor):
    """Does the work in the thread that submits it: the order of calls is the code's own."""

    def __init__(self, threads: int) -> None:
        pass

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


Commit = Callable[..., Any]
"""`StoreCommit`, or the one of before."""


def read_record(target: Location) -> CommitRecord:
    return CommitLog(target).read().commit


@dataclass(frozen=True, slots=True)
class Publisher:
    """A run that publishes `files` files; two of one run are two tries of it. With `released`, nothing is staged."""

    run: str
    mode: CommitMode = "overwrite"
    files: int = 1
    released: bool = False
    partitions: tuple[str, ...] = ()

    def as_publisher(self) -> _Publisher:
        return _Publisher(self.run)

    def partition(self, number: int) -> str:
        """Of its file of that number: they are distributed in turn."""
        return f"p={self.partitions[number % len(self.partitions)]}/" if self.partitions else ""


@dataclass
class Scenario:
    """What there is before, and who meets. `vanished` is how many of the published files somebody has deleted."""

    publishers: Sequence[Publisher]
    readers: int = 0
    foreign_writers: int = 0
    before: Publisher | None = None
    vanished: int = 0
    foreign_before: int = 0
    kills: int = 0
    sleeps: int = 0
    loses_answers: bool = False
    counts_strays: bool = True
    commit: Commit = StoreCommit
    read_record: Callable[[Location], CommitRecord] = read_record

    def build(self) -> World:
        return _Target(self).world()


@dataclass
class _Target:
    """One world of a scenario, and all that its invariants remember."""

    scenario: Scenario
    store: ModelStore = field(default_factory=ModelStore)
    clock: Clock = field(default_factory=Clock)
    records: list[CommitRecord] = field(default_factory=list)
    foreign: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    actors: list[Actor] = field(default_factory=list)
    looked: tuple[object, CommitRecord] = (None, CommitRecord())

    def world(self) -> World:
        scenario = self.scenario
        if scenario.before is not None:
            self._publish(scenario.before, None)
        for number in range(scenario.vanished):
            name = self._record().entries[0].files[number].name
            self.lost.add(name)
            del self.store.objects[f"{TARGET}/{name}"]
        self.records = [self._record()]
        for number in range(scenario.foreign_before):
            self._write_foreign(f"foreign-{number}.parquet", b"foreign")
        for number, publisher in enumerate(scenario.publishers):
            self._stage(publisher)
            self.actors.append(Actor(f"{publisher.run}#{number}", lambda actor, it=publisher: self._publish(it, actor)))
        for number in range(scenario.readers):
            self.actors.append(Actor(f"reader {number}", self._read))
        for number in range(scenario.foreign_writers):
            self.actors.append(Actor(f"stranger {number}", lambda actor, it=number: self._write_as_stranger(actor, it)))
        self.store.loses_answers = scenario.loses_answers
        return World(
            self.actors,
            self.clock,
            self._check,
            self._finish,
            lambda: hash(tuple(sorted(self.store.objects.items()))),
            expected=(TargetBusyError, MissingFileError, CommitError),
            kills=scenario.kills,
            sleeps=scenario.sleeps,
        )

    def _publish(self, publisher: Publisher, actor: Actor | None) -> Any:
        fs = ModelFileSystem(self.store, actor)
        target = Location(fs, TARGET)
        commit = self.scenario.commit(
            target, publisher.as_publisher(), lambda step: None, now=self.clock, pool=InlineExecutor, threads=1
        )
        return commit.publish(self._staged(publisher, fs), publisher.mode, replace_foreign=True)

    def _staged(self, publisher: Publisher, fs: ModelFileSystem) -> list[StagedFile]:
        if fs.actor is None:
            self._stage(publisher)
        return [
            StagedFile(Location(fs, f"/staged/{name}"), name, len(_content(publisher, number)), 1)
            for number, name in enumerate(names_of(publisher))
        ]

    def _stage(self, publisher: Publisher) -> None:
        for number, name in enumerate(names_of(publisher)):
            self.store.objects[f"/staged/{name}"] = _content(publisher, number)
            if publisher.released:
                del self.store.objects[f"/staged/{name}"]

    def _record(self) -> CommitRecord:
        """As it stands, without a step of anybody's."""
        ours = tuple(item for item in self.store.objects.items() if item[0].startswith(f"{TARGET}/_"))
        if ours != self.looked[0]:
            self.looked = ours, self.scenario.read_record(Location(ModelFileSystem(self.store), TARGET))
        return self.looked[1]

    def _read(self, actor: Actor) -> list[bytes]:
        """As readers are told to: the files of the record; if one is gone, the record once more."""
        fs = ModelFileSystem(self.store, actor)
        for _ in range(READ_TRIES):
            record = self.scenario.read_record(Location(fs, TARGET))
            try:
                return sorted(fs.cat_file(f"{TARGET}/{file.name}") for entry in record.entries for file in entry.files)
            except FileNotFoundError:
                continue
        raise CommitError("it changes too fast")

    def _write_as_stranger(self, actor: Actor, number: int) -> None:
        actor.call()
        self._write_foreign(f"stranger-{number}.parquet", b"stranger")

    def _write_foreign(self, name: str, data: bytes) -> None:
        self.store.objects[f"{TARGET}/{name}"] = data
        self.foreign[name] = (data, len(self.records))

    def _check(self) -> None:
        record = self._record()
        if record != self.records[-1]:
            self.records.append(record)
        for entry in record.entries:
            for file in entry.files:
                number = number_of(file)
                content = self.store.objects.get(f"{TARGET}/{file.name}")
                if content is None and file.name not in self.lost:
                    raise ViolationError(f"the record of {entry.identity} names {file.name}, which is gone")
                if content is not None and content != content_of(entry.identity, number):
                    raise ViolationError(f"{file.name} of {entry.identity} holds {content!r}")
        self._check_partitions(record)
        for name, (data, seen_at) in self.foreign.items():
            if self.store.objects.get(f"{TARGET}/{name}") != data and not self._was_overwritten_since(seen_at):
                raise ViolationError(f"{name} is gone, which nobody of ours wrote and nothing replaced")
        for actor in self.actors:
            if actor.name.startswith("reader") and actor.is_over and actor.result is not None:
                self._check_read(actor)

    def _check_partitions(self, record: CommitRecord) -> None:
        """If only partitions are overwritten, each has the files of one run: as many as that run has there."""
        if {each.mode for each in self.scenario.publishers} != {"overwrite_partitions"}:
            return
        runs = {each.run: each for each in (*self.scenario.publishers, self.scenario.before) if each is not None}
        found: dict[str, list[str]] = {}
        for entry in record.entries:
            for file in entry.files:
                found.setdefault(partition_of(file.name), []).append(entry.identity)
        for partition, identities in found.items():
            owner = runs.get(identities[0])
            if owner is None:
                continue
            expected = sum(f"{partition}/" == owner.partition(number) for number in range(owner.files))
            if identities != [owner.run] * expected:
                raise ViolationError(f"partition {partition} holds files of {identities}; expected {expected} of one")

    def _was_overwritten_since(self, seen_at: int) -> bool:
        overwriting = {each.run for each in self.scenario.publishers if each.mode == "overwrite"}
        known = self.records[seen_at - 1].entries
        new = [entry for record in self.records[seen_at:] for entry in record.entries if entry not in known]
        return any(entry.identity in overwriting for entry in new)

    def _check_read(self, actor: Actor) -> None:
        whole = [
            sorted(content_of(entry.identity, number_of(file)) for entry in record.entries for file in entry.files)
            for record in self.records
        ]
        if actor.result not in whole:
            raise ViolationError(f"{actor.name} saw {actor.result}, which was never published")

    def _finish(self) -> None:
        """Whoever did not fail has published; and the next publisher finds everything in order."""
        published = {entry.identity for record in self.records for entry in record.entries}
        for actor in self.actors:
            run = actor.name.partition("#")[0]
            if actor.result is not None and "#" in actor.name and run not in published:
                raise ViolationError(f"{actor.name} says that it has published, and no record ever said so")
        modes = {each.mode for each in self.scenario.publishers}
        if modes == {"overwrite"} and len(self.records[-1].entries) > 1:
            raise ViolationError(f"{len(self.records[-1].entries)} publications stand; expected one")
        self.clock.seconds += LONGER_THAN_ANY_LEASE
        if not self.lost and self.scenario.counts_strays:
            self._check_next()

    def _check_next(self) -> None:
        self.store.loses_answers = False
        self._publish(Publisher("next", "append"), None)
        self._check()
        recorded = {file.name for entry in self._record().entries for file in entry.files}
        there = {path.removeprefix(f"{TARGET}/") for path in self.store.find(TARGET)}
        stray = {name for name in there if is_data_file(name)} - recorded - self.foreign.keys()
        if stray:
            raise ViolationError(f"{sorted(stray)} are left, which no record names")


def names_of(publisher: Publisher) -> list[str]:
    """In the exchange."""
    return [f"{publisher.run}/{publisher.partition(number)}part-{number}.parquet" for number in range(publisher.files)]


def number_of(file: PublishedFile) -> int:
    """Of a file that is published, among those of its run: others may be gone with their partitions."""
    return int(file.staged.rpartition("part-")[2].partition(".")[0])


def _content(publisher: Publisher, number: int) -> bytes:
    return content_of(publisher.run, number)


def content_of(run: str, number: int) -> bytes:
    return f"{run} {number}".encode()


@contextmanager
def repeatable_tokens() -> Iterator[None]:
    """Tokens that say who made them, so that a schedule that is replayed comes to the same bytes."""
    made: Counter[greenlet] = Counter()

    def token(size: int) -> str:
        turn = whose_turn()
        made[turn] += 1
        return f"{turn.name if isinstance(turn, Turn) else 'nobody'}-{made[turn]}"

    with mock.patch("secrets.token_hex", token):
        yield
