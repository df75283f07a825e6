"""Worlds in which publishers meet at a local folder: every system call of theirs that Python audits is a step."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from greenlet import greenlet

from airflow_abs.exchange.errors import CommitError, TargetBusyError
from airflow_abs.exchange.publish import local_folder
from airflow_abs.exchange.publish.local_folder import LocalCommit
from airflow_abs.exchange.publish.publication import read_commit
from airflow_abs.exchange.publish.record import StagedFile, is_data_file
from tests.model.actors import Actor, Clock, whose_turn
from tests.model.publishing import Publisher, content_of, names_of, number_of
from tests.model.world import ViolationError, World

_STEPS = ("os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.scandir", "os.listdir", "open", "os.chmod")
_STEPS_WITHOUT_A_PATH = ("fcntl.flock", "ctypes.dlsym")
READ_TRIES = 30

_acting: dict[greenlet, tuple[Actor, str]] = {}
_opened: dict[greenlet, list[int]] = {}


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook cannot be taken back; it does nothing outside of an actor's thread."""
    mine = _acting.get(whose_turn())
    if mine is None:
        return
    actor, root = mine
    if event in _STEPS_WITHOUT_A_PATH or (event in _STEPS and _is_below(arguments[0], root)):
        actor.call()


def _is_below(path: object, root: str) -> bool:
    """Relative names are those of `shutil.rmtree`, which goes by descriptors."""
    return not isinstance(path, int) and (str(path).startswith(root) or not str(path).startswith("/"))


@dataclass
class LocalScenario:
    """As `Scenario`; `swaps` says whether the file system can swap two folders."""

    publishers: Sequence[Publisher]
    readers: int = 0
    before: Publisher | None = None
    kills: int = 0
    swaps: bool = True
    folder: str | None = None

    def build(self) -> World:
        return _Folder(self, Path(tempfile.mkdtemp(dir=self.folder))).world()


@dataclass
class _Folder:
    scenario: LocalScenario
    root: Path
    actors: list[Actor] = field(default_factory=list)

    @property
    def target(self) -> Path:
        return self.root / "mart" / "t" / "ds=1"

    def world(self) -> World:
        scenario = self.scenario
        if scenario.before is not None:
            self._publish(scenario.before)
        for number, publisher in enumerate(scenario.publishers):
            self._stage(publisher)
            name = f"{publisher.run}#{number}"
            self.actors.append(Actor(name, lambda actor, it=publisher: self._act(actor, lambda: self._publish(it))))
        for number in range(scenario.readers):
            self.actors.append(Actor(f"reader {number}", lambda actor: self._act(actor, self._read)))
        return World(
            self.actors,
            Clock(),
            self._check,
            self._finish,
            lambda: None,
            expected=(TargetBusyError,),
            kills=scenario.kills,
            close=lambda: shutil.rmtree(self.root),
        )

    def _act(self, actor: Actor, work: Any) -> Any:
        me = whose_turn()
        _acting[me] = actor, str(self.root)
        _opened[me] = []
        try:
            return work()
        finally:
            del _acting[me]
            for descriptor in _opened.pop(me):  # what the kernel closes for a process that is gone, and its locks
                with suppress(OSError):
                    _close(descriptor)

    def _publish(self, publisher: Publisher) -> Any:
        if whose_turn() not in _acting:
            self._stage(publisher)
        staged = [
            StagedFile(self.root / "staged" / name, name, len(content_of(publisher.run, number)), 1)
            for number, name in enumerate(names_of(publisher))
        ]
        return LocalCommit(self.target, publisher.as_publisher(), lambda step: None).publish(
            staged, publisher.mode, replace_foreign=True
        )

    def _stage(self, publisher: Publisher) -> None:
        for number, name in enumerate(names_of(publisher)):
            path = self.root / "staged" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content_of(publisher.run, number))

    def _read(self) -> list[bytes]:
        """Lists the folder, as Spark does; if it is swapped before all is read, once more."""
        for _ in range(READ_TRIES):
            try:
                files = [path for path in self.target.iterdir() if is_data_file(path.name)]
                return sorted(path.read_bytes() for path in files)
            except FileNotFoundError:
                if not self.target.exists():
                    return []
        raise CommitError("it changes too fast")

    def _check(self) -> None:
        """What is there is what its own record says: some publication, whole."""
        if not self.target.exists():
            if self.scenario.before is not None and self.scenario.swaps:
                raise ViolationError("the target is gone")
            return
        record = read_commit(self.target)
        if record is None:
            raise ViolationError(f"no record in {sorted(path.name for path in self.target.iterdir())}")
        recorded = {
            file.name: content_of(entry.identity, number_of(file)) for entry in record.entries for file in entry.files
        }
        names = [str(path.relative_to(self.target)) for path in self.target.rglob("*") if path.is_file()]
        there = {name: (self.target / name).read_bytes() for name in names if is_data_file(name)}
        if there != recorded:
            raise ViolationError(
                f"the target holds {sorted(there.values())}, its record says {sorted(recorded.values())}"
            )
        for actor in self.actors:
            if actor.name.startswith("reader") and actor.is_over and actor.result is not None:
                self._check_read(actor)

    def _check_read(self, actor: Actor) -> None:
        """Of `overwrite`, one run's files; with `append`, some runs' files, each whole."""
        runs = [*self.scenario.publishers, *([self.scenario.before] if self.scenario.before else [])]
        whole = [[content_of(run.run, number) for number in range(run.files)] for run in runs]
        left = list(actor.result)
        for contents in whole:
            if all(content in left for content in contents):
                left = [content for content in left if content not in contents]
        is_mixed = all(run.mode == "overwrite" for run in runs) and actor.result not in [sorted(each) for each in whole]
        if left or (is_mixed and actor.result):
            raise ViolationError(f"{actor.name} saw {actor.result}, which was never published")

    def _finish(self) -> None:
        self._publish(Publisher("next", "append"))
        self._check()
        record = read_commit(self.target)
        runs = {entry.identity for entry in record.entries} if record else set()
        appended = {
            actor.name.partition("#")[0]
            for actor, publisher in zip(self.actors, self.scenario.publishers, strict=False)
            if actor.result is not None and publisher.mode == "append"
        }
        if all(publisher.mode == "append" for publisher in self.scenario.publishers) and not appended <= runs:
            raise ViolationError(f"{sorted(appended - runs)} have published and are gone")
        hidden = sorted(path.name for path in (self.root / "mart").iterdir() if path.name.startswith("."))
        if hidden:
            raise ViolationError(f"{hidden} are left beside the table")


_open, _close, _stat = os.open, os.close, os.stat


def _stat_as_a_step(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
    """Python audits no look at a file."""
    _hear("open", (path,))
    return _stat(path, *arguments, **options)


def _note_open(*arguments: Any, **options: Any) -> int:
    descriptor = _open(*arguments, **options)
    _opened.get(whose_turn(), []).append(descriptor)
    return descriptor


def _note_close(descriptor: int) -> None:
    mine = _opened.get(whose_turn(), [])
    if descriptor in mine:
        mine.remove(descriptor)
    _close(descriptor)


@contextmanager
def audited(*, swaps: bool = True) -> Iterator[None]:
    """Actors' system calls are steps while this lasts; disks are not waited for."""
    if not getattr(sys, "_airflow_abs_hears", False):
        sys.addaudithook(_hear)
        sys._airflow_abs_hears = True  # type: ignore[attr-defined]
    with (
        mock.patch("os.open", _note_open),
        mock.patch("os.close", _note_close),
        mock.patch("os.fsync"),
        mock.patch("os.stat", _stat_as_a_step),
    ):
        if swaps:
            yield
        else:
            with mock.patch.object(local_folder, "exchange", return_value=False):
                yield
