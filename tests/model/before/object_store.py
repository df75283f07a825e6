"""Publishing to an object store as it was before the log, to show that the model finds what was wrong with it.

Unchanged but for its clock and its pool, which come in as arguments.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from functools import partial

from airflow_abs.exchange.errors import (
    CommitError,
    DamagedFileError,
    MissingFileError,
    StoredFileError,
)
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.record import (
    RECORD_NAME,
    SUCCESS_NAME,
    CommitMode,
    CommitRecord,
    PublicationPlan,
    StagedFile,
    is_data_file,
    plan_publication,
)
from airflow_abs.exchange.storage.client_errors import (
    raise_if_throttled,
    reason_of,
    storage_errors,
)
from airflow_abs.exchange.storage.deletion import delete_files
from airflow_abs.exchange.storage.locations import Location, locate
from airflow_abs.exchange.storage.whole_files import decode_json, encode_json
from tests.model.before.store_lock import StoreLock

INTENT_NAME = "_airflow_abs_intent"
_LOCK_NAME = "_airflow_abs_lock"


class StoreCommit:
    """One publication to one prefix of an object store; `on_step` hears of every step once it is done."""

    def __init__(
        self,
        target: Location,
        publisher: Publisher,
        on_step: Callable[[str], None],
        *,
        now: Callable[[], float],
        pool: Callable[[int], Executor],
        threads: int,
    ) -> None:
        self._now, self._pool, self._threads = now, pool, threads
        self._target = target
        self._publisher = publisher
        self._on_step = on_step

    def publish(self, staged: list[StagedFile], mode: CommitMode, *, replace_foreign: bool = True) -> PublicationPlan:
        """Publish; see `airflow_abs.exchange.publish.publication.publish`."""
        try:
            with StoreLock(
                self._target / _LOCK_NAME, self._publisher.identity, str(self._target), now=self._now
            ) as lock:
                self._on_step("locked")
                self._recover()
                self._on_step("recovered")
                plan = self._plan(staged, mode)
                if plan.changes:
                    self._perform(plan, lock)
                return plan
        except storage_errors() as error:
            raise_if_throttled(f"sink {self._target}", error)
            raise CommitError(
                f"sink {self._target}: cannot be published ({reason_of(error)}); run the commit again, "
                "and check the connection's rights to read, write, list and delete there"
            ) from error

    def _perform(self, plan: PublicationPlan, lock: StoreLock) -> None:
        names = [name for _, name in plan.put]
        intent = {"digest": plan.entry.digest, "put": names, "drop": sorted(plan.drop)}
        self._write(INTENT_NAME, encode_json(intent))
        self._on_step("intent written")
        undone: tuple[type[Exception], ...] = (StoredFileError, *storage_errors())
        try:
            with self._pool(self._threads) as pool:
                for name in pool.map(partial(_put, self._target), plan.put):
                    self._on_step(f"{name} placed")
            self._check_sizes(plan)
        except undone:  # whoever lists the target must not meet half an output until the next try
            self._recover()
            raise
        lock.renew()  # from here on readers of the record see the new output: only if we are still the one
        self._write(RECORD_NAME, encode_json(plan.record.to_json()))
        self._on_step("recorded")
        self._delete(plan.drop)
        self._on_step("old files deleted")
        self._write(SUCCESS_NAME, b"")
        self._delete([INTENT_NAME])
        self._on_step("cleaned")

    def _check_sizes(self, plan: PublicationPlan) -> None:
        """By one listing, not by a request for each file."""
        self._target.forget_listings()
        infos = self._target.fs.find(self._target.path, detail=True)
        sizes = {self._target.at(path).relative_to(self._target): int(info["size"]) for path, info in infos.items()}
        for file, name in plan.put:
            if (found := sizes.get(name)) != file.bytes:
                source = locate(file.source)
                raise DamagedFileError(
                    f"{source}: {found} bytes, its manifest says {file.bytes}; clear the subtask that wrote it",
                    path=str(source),
                )

    def _recover(self) -> None:
        """Finish what was recorded before its publisher died, undo what was not."""
        content = self._read(INTENT_NAME)
        if content is None:
            return
        where = str(self._target / INTENT_NAME)
        try:
            intent = decode_json(content, where=where)
        except DamagedFileError:  # its writer was killed while it wrote: nothing was put yet
            intent = {"digest": "", "put": [], "drop": []}
        record = self._record()
        if any(entry.digest == intent["digest"] for entry in record.entries):
            self._delete(intent["drop"])
            self._write(SUCCESS_NAME, b"")
        else:
            recorded = {file.name for entry in record.entries for file in entry.files}
            self._delete(set(intent["put"]) - recorded)
        self._delete([INTENT_NAME])

    def _plan(self, staged: list[StagedFile], mode: CommitMode) -> PublicationPlan:
        self._target.forget_listings()
        names = [self._target.at(path).relative_to(self._target) for path in self._target.fs.find(self._target.path)]
        return plan_publication(
            staged,
            mode=mode,
            publisher=self._publisher,
            record=self._record(),
            existing=[name for name in names if is_data_file(name)],
            target=str(self._target),
            published=lambda name: self._target / name,
        )

    def _record(self) -> CommitRecord:
        content = self._read(RECORD_NAME)
        if content is None:
            return CommitRecord()
        where = str(self._target / RECORD_NAME)
        return CommitRecord.from_json(decode_json(content, where=where), where=where)

    def _read(self, name: str) -> bytes | None:
        try:
            return (self._target / name).read_whole()
        except FileNotFoundError:
            return None

    def _write(self, name: str, data: bytes) -> None:
        self._target.fs.pipe_file((self._target / name).path, data)

    def _delete(self, names: Iterable[str]) -> None:
        delete_files(self._target, [(self._target / name).path for name in sorted(names)])


def _put(target: Location, item: tuple[StagedFile, str]) -> str:
    file, name = item
    source, to = locate(file.source), target / name
    try:
        if source.fs == target.fs and source.path == to.path:
            pass  # published before, and S3 copies nothing onto itself
        elif source.fs == target.fs:
            target.fs.cp_file(source.path, to.path)
        else:
            with source.fs.open(source.path, "rb") as reader, target.fs.open(to.path, "wb") as writer:
                shutil.copyfileobj(reader, writer, 8 << 20)
    except FileNotFoundError as error:
        raise MissingFileError(
            f"{source}: no such file; its manifest lists it: clear the subtask that wrote it", path=str(source)
        ) from error
    return name
