"""Publishing to a folder of a local file system: a complete new folder is swapped in at once.

The new folder is built beside the table, out of sight, from hard links (copies where links are refused), and swapped
with `renameat2(RENAME_EXCHANGE)`. Where that is not supported (not Linux, some network file systems) two renames do it:
readers between them find no target for an instant, and if we die there, the next publisher puts the old folder back.

What others add to the target while we build is taken over from the old folder, by the next publisher if we die between
swap and look: what was there before is noted beside it. Not guaranteed: what they write there after that, having opened
it before, is lost with it; a reader that listed the old folder and opens its files by path after the swap gets "not
found" (never another run's rows: names are unique); one that walks through the folders of table partitions may miss a
partition that is new. After a power cut, data pages that Spark had not yet synced may be missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from airflow_abs.exchange.errors import CommitError, DamagedFileError, MissingFileError
from airflow_abs.exchange.paths import escape
from airflow_abs.exchange.publish.lock import hold_local_lock
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.record import (
    OWN_NAMES,
    RECORD_NAME,
    SUCCESS_NAME,
    CommitMode,
    CommitRecord,
    PublicationPlan,
    StagedFile,
    plan_publication,
    refuse_foreign,
)
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import read_json, sync_folder, write_json

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)


class LocalCommit:
    """One publication to one local folder; `on_step` hears of every step once it is done."""

    def __init__(self, target: Path, publisher: Publisher, on_step: Callable[[str], None]) -> None:
        self._target = target.resolve()
        self._publisher = publisher
        self._on_step = on_step
        work, name = work_folder(self._target)
        self._lock = work / f"{name}.lock"
        self._new = work / f"{name}.new"
        self._old = work / f"{name}.old"
        self._known = work / f"{name}.known"

    def publish(self, staged: list[StagedFile], mode: CommitMode, *, replace_foreign: bool = False) -> PublicationPlan:
        """Publish; see `airflow_abs.exchange.publish.publication.publish`."""
        if self._target.exists() and not self._target.is_dir():
            raise CommitError(f"sink {self._target}: is a file, expected a folder; give the sink a folder of its own")
        with self._named_errors(), hold_local_lock(self._lock, self._publisher.identity, str(self._target)):
            self._on_step("locked")
            self._recover()
            self._on_step("recovered")
            existing = _files_below(self._target)
            plan = self._plan(staged, mode, existing)
            if mode == "overwrite" and not replace_foreign:
                refuse_foreign(str(self._target), plan.foreign)
            if plan.changes:
                known = {*existing, *(name for _, name in plan.put)}
                write_json(self._known, {"names": sorted(known)})
                self._build(plan, existing)
                self._swap()
                self._on_step("swapped")
                self._take_over(known)
                self._clean()
                self._on_step("cleaned")
            return plan

    def _recover(self) -> None:
        """Undo what a killed publisher left half done; a swap that happened stays."""
        if self._old.exists() and not self._target.exists():
            self._old.rename(self._target)
        if self._known.exists() and self._target.exists():
            self._take_over(set(read_json(self._known)["names"]))
        self._clean()

    def _clean(self) -> None:
        for folder in (self._new, self._old):
            if folder.exists():
                shutil.rmtree(folder)
        self._known.unlink(missing_ok=True)

    def _plan(self, staged: list[StagedFile], mode: CommitMode, existing: list[str]) -> PublicationPlan:
        record = self._target / RECORD_NAME
        return plan_publication(
            staged,
            mode=mode,
            publisher=self._publisher,
            record=CommitRecord.from_json(read_json(record), where=str(record)) if record.exists() else CommitRecord(),
            existing=existing,
            target=str(self._target),
            published=lambda name: self._target / name,
        )

    def _build(self, plan: PublicationPlan, existing: list[str]) -> None:
        self._new.mkdir()
        put = {name for _, name in plan.put}
        kept = set(existing) - plan.drop - put - OWN_NAMES if plan.keeps_others else set()
        for name in sorted(kept):
            _place(self._target / name, self._new / name)
        self._on_step("kept files placed")
        for file, name in plan.put:
            _fetch(file, self._new / name)
            self._on_step(f"{name} placed")
        write_json(self._new / RECORD_NAME, plan.record.to_json())
        self._on_step("recorded")
        (self._new / SUCCESS_NAME).touch()
        if self._target.exists():
            shutil.copymode(self._target, self._new)
        sync_folder(str(self._new))
        self._on_step("built")

    def _swap(self) -> None:
        if not self._target.exists():
            self._target.parent.mkdir(parents=True, exist_ok=True)
            self._new.rename(self._target)
        elif not exchange(self._new, self._target):
            self._target.rename(self._old)
            self._on_step("moved aside")
            self._new.rename(self._target)
        sync_folder(str(self._target.parent))

    def _take_over(self, known: set[str]) -> None:
        """What others have added to the old folder since it was listed: it counts as added to the new one.

        Args:
            known: what was there then, and what was put into the new one: a half-built one holds nothing else.
        """
        old = self._old if self._old.exists() else self._new
        for name in sorted(set(_files_below(old)) - known):
            is_hidden = any(part.startswith(("_", ".")) for part in Path(name).parts)
            if not is_hidden and not (self._target / name).exists():
                _place(old / name, self._target / name)

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CommitError(
                f"sink {self._target}: cannot be published ({type(error).__name__}: {error}); readers see what they "
                "saw before. Check that it and the folder that holds it are writable, not full and no mount points"
            ) from error


def work_folder(target: Path) -> tuple[Path, str]:
    """Where a target's new folder is built, and under which name: `/mart/.revenue.airflow_abs`, `ds~3D2026-01-01`.

    Beside the whole table, so that readers of the table with globs that see hidden folders (DuckDB's do) never meet
    a half-built partition; below the table only if beside it is another file system or not writable.
    """
    table = target
    while "=" in table.name:
        table = table.parent
    beside, inside = table.parent, target.parent
    outside = _is_usable(beside, _nearest_existing(inside))
    folder = beside / f".{escape(table.name)}.airflow_abs" if outside else inside / ".airflow_abs"
    return folder, escape(str(target.relative_to(table.parent)))


def exchange(one: Path, other: Path) -> bool:
    """Swap two existing paths of one file system at once; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NO_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))


def _is_usable(folder: Path, neighbour: Path) -> bool:
    existing = _nearest_existing(folder)
    return os.access(existing, os.W_OK | os.X_OK) and existing.stat().st_dev == neighbour.stat().st_dev


def _nearest_existing(folder: Path) -> Path:
    return next(parent for parent in (folder, *folder.parents) if parent.exists())


def _files_below(folder: Path) -> list[str]:
    """Names of all files below a folder, relative to it, and of links to folders; `[]` if there is none."""
    return [
        str((Path(where) / name).relative_to(folder))
        for where, folders, names in os.walk(folder, onerror=_raise)
        for name in (*names, *(each for each in folders if (Path(where) / each).is_symlink()))
    ]


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _fetch(file: StagedFile, to: Path) -> None:
    """Bring a staged file into the new folder and check that it has the size that its manifest says."""
    source = locate(file.source)
    try:
        if source.is_local:
            _place(source.local, to)
        else:
            to.parent.mkdir(parents=True, exist_ok=True)
            source.fs.get_file(source.path, str(to))
    except FileNotFoundError as error:
        raise MissingFileError(
            f"{source}: no such file; its manifest lists it: clear the subtask that wrote it", path=str(source)
        ) from error
    if (found := to.stat().st_size) != file.bytes:
        raise DamagedFileError(
            f"{source}: {found} bytes, its manifest says {file.bytes}; clear the subtask that wrote it",
            path=str(source),
        )


def _place(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, to, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copy2(source, to, follow_symlinks=False)
