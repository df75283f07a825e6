"""Publishing to an object store, which can swap nothing: put the new files, write the record, delete the old ones.

The log of the target (`commit_log.py`) is the truth: a reader that reads exactly the files of `read_commit(target)`
sees the old output or the new, whole; if one of them is gone, a newer one has been published meanwhile: it reads the
record again. Names of files are never used twice, and only what the log says will never be published is deleted, so a
publisher that was paused does no harm when it resumes, however long that was.

Not guaranteed: a reader that *lists* the target between the first put and the last delete sees old and new files
side by side; it can tell by `_SUCCESS` being older than the newest file of the log. For readers that must never see
that, publish to a new path for each run, or to a table format. Stores that ignore exclusive creates guarantee nothing.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any

from airflow_abs.exchange.errors import CommitError, DamagedFileError, MissingFileError, StoredFileError
from airflow_abs.exchange.publish.claim import LEASE_SECONDS, TargetClaim
from airflow_abs.exchange.publish.commit_log import CommitLog, Garbage
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.record import (
    RECORD_NAME,
    SUCCESS_NAME,
    CommitMode,
    CommitRecord,
    PublicationPlan,
    StagedFile,
    plan_publication,
    refuse_foreign,
)
from airflow_abs.exchange.storage.client_errors import raise_if_throttled, reason_of, storage_errors
from airflow_abs.exchange.storage.deletion import delete_files
from airflow_abs.exchange.storage.listings import etag_of, find_infos
from airflow_abs.exchange.storage.locations import Location, locate, modified_seconds

_THREADS = 8
_Listing = dict[str, dict[str, Any]]


class StoreCommit:
    """One publication to one prefix of an object store; `on_step` hears of every step once it is done.

    `now` is the time in epoch seconds, for the lease alone; `threads` is how many files are put side by side.
    """

    def __init__(
        self,
        target: Location,
        publisher: Publisher,
        on_step: Callable[[str], None],
        *,
        now: Callable[[], float] = time.time,
        lease_seconds: float = LEASE_SECONDS,
        pool: Callable[[int], Executor] = ThreadPoolExecutor,
        threads: int = _THREADS,
    ) -> None:
        self._target = target
        self._publisher = publisher
        self._on_step = on_step
        self._pool = pool
        self._threads = threads
        token = secrets.token_hex(8)
        log = CommitLog(target, token)
        self._claim = TargetClaim(log, publisher.identity, token, str(target), now=now, lease_seconds=lease_seconds)
        self._now = now

    def publish(self, staged: list[StagedFile], mode: CommitMode, *, replace_foreign: bool = False) -> PublicationPlan:
        """Publish; see `airflow_abs.exchange.publish.publication.publish`."""
        with self._named_errors(), self._claim as claim:
            self._on_step("locked")
            listing = self._recover(claim)
            self._on_step("recovered")
            plan = self._plan(staged, mode, claim, listing)
            if mode == "overwrite" and not replace_foreign:
                refuse_foreign(str(self._target), plan.foreign)
            if plan.changes:
                self._perform(plan, claim, listing)
            elif SUCCESS_NAME not in listing:  # its publisher was killed right before
                self._write_success()
            return plan

    def _recover(self, claim: TargetClaim) -> _Listing:
        """Delete what the log says will never count, and list what is left: after the claim was made, so that nobody
        who came before can still make any of it count."""
        listing = self._list()
        gone = {each.name for each in claim.record.garbage if _is_there(each, listing)}
        self._delete(gone)
        return {name: info for name, info in listing.items() if name not in gone}

    def _plan(
        self,
        staged: list[StagedFile],
        mode: CommitMode,
        claim: TargetClaim,
        listing: _Listing,
    ) -> PublicationPlan:
        return plan_publication(
            staged,
            mode=mode,
            publisher=self._publisher,
            record=claim.record.commit,
            existing=listing,
            target=str(self._target),
            published=lambda name: self._target / name,
            suffix=f"-{claim.record.number}",
        )

    def _perform(self, plan: PublicationPlan, claim: TargetClaim, listing: _Listing) -> None:
        names = [name for _, name in plan.put]
        garbage = tuple(each for each in claim.record.garbage if each.keep_until > self._now())
        claim.announce(names, garbage)
        self._on_step("intent written")
        undone: tuple[type[Exception], ...] = (StoredFileError, *storage_errors())
        try:
            self._put_all(plan, claim)
            self._check_sizes(plan)
        except undone:  # a reader that lists the target must not find half an output until the next try
            claim.check()  # else perhaps it is missing because another run has deleted it
            self._delete(names)  # no other publisher has put them, or will
            raise
        dropped = tuple(self._garbage(plan, claim.record.commit, listing))
        claim.commit(plan.record, (*garbage, *dropped))
        self._on_step("recorded")
        self._delete(each.name for each in dropped)
        self._on_step("old files deleted")
        self._write_success()
        self._on_step("cleaned")

    def _put_all(self, plan: PublicationPlan, claim: TargetClaim) -> None:
        """Put the files, a few at a time, and keep the claim meanwhile."""
        waiting = iter(plan.put)
        under_way: set[Future[str]] = set()
        with self._pool(self._threads) as pool:
            while True:
                for item in waiting:
                    under_way.add(pool.submit(partial(_put, self._target), item))
                    if len(under_way) >= self._threads:
                        break
                if not under_way:
                    return
                done, under_way = wait(under_way, timeout=claim.renewal_seconds, return_when=FIRST_COMPLETED)
                for name in sorted(future.result() for future in done):
                    self._on_step(f"{name} placed")
                claim.renew_if_due()

    def _check_sizes(self, plan: PublicationPlan) -> None:
        """By one listing, not by a request for each file."""
        listing = self._list()
        for file, name in plan.put:
            found = int(listing[name]["size"]) if name in listing else None
            if found != file.bytes:
                source = locate(file.source)
                raise DamagedFileError(
                    f"{source}: {found} bytes, its manifest says {file.bytes}; clear the subtask that wrote it",
                    path=str(source),
                )

    def _garbage(self, plan: PublicationPlan, before: CommitRecord, listing: _Listing) -> Iterator[Garbage]:
        """What goes with this publication: files of ours, and with `overwrite` the others as they were listed."""
        ours = {file.name for entry in before.entries for file in entry.files}
        for name in sorted(plan.drop):
            yield Garbage(name, "" if name in ours else _version(listing[name]), self._now())
        if RECORD_NAME in listing:
            yield Garbage(RECORD_NAME, "", self._now())

    def _list(self) -> _Listing:
        return find_infos(self._target)

    def _write_success(self) -> None:
        self._target.fs.pipe_file((self._target / SUCCESS_NAME).path, b"")

    def _delete(self, names: Iterable[str]) -> None:
        delete_files(self._target, [(self._target / name).path for name in sorted(names)])

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except storage_errors() as error:
            raise_if_throttled(f"sink {self._target}", error)
            raise CommitError(
                f"sink {self._target}: cannot be published ({reason_of(error)}); run the commit again, "
                "and check the connection's rights to read, write, list and delete there"
            ) from error


def _is_there(garbage: Garbage, listing: _Listing) -> bool:
    info = listing.get(garbage.name)
    return info is not None and garbage.version in ("", _version(info))


def _version(info: dict[str, Any]) -> str:
    """What tells one content of a file from a later one, as far as the store says."""
    return f"{info.get('size')} {etag_of(info) or modified_seconds(info)}"


def _put(target: Location, item: tuple[StagedFile, str]) -> str:
    file, name = item
    source, to = locate(file.source), target / name
    try:
        if source.fs == target.fs:
            target.fs.cp_file(source.path, to.path)
        else:
            with source.fs.open(source.path, "rb") as reader, target.fs.open(to.path, "wb") as writer:
                shutil.copyfileobj(reader, writer, 8 << 20)
    except FileNotFoundError as error:
        raise MissingFileError(
            f"{source}: no such file; its manifest lists it: clear the subtask that wrote it", path=str(source)
        ) from error
    return name
