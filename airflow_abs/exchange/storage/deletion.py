"""Deleting many files of one file system: in as few requests as its client can."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from glob import has_magic

from airflow_abs.exchange.storage.listings import stands_for_folder
from airflow_abs.exchange.storage.locations import Location

_THREADS = 16


def delete_files(folder: Location, paths: Sequence[str]) -> None:
    """Delete files below `folder`; those that are gone are no error. S3 takes 1,000 in one request.

    Raises:
        OSError: some are still there. S3's client keeps to itself what the store refused to delete, so after a deletion
            in bulk the folder is listed once more.
    """
    if folder.is_local:
        for path in paths:
            _delete_file(folder, path)
        return
    at_once = [path for path in paths if not _is_misread(path)]
    try:
        if at_once:
            folder.fs.rm(at_once)
    except FileNotFoundError:  # another process deletes here, too: which are left?
        for path in at_once:
            _delete_file(folder, path)
    alone = [path for path in paths if _is_misread(path)]
    if alone:
        with ThreadPoolExecutor(min(_THREADS, len(alone)), thread_name_prefix="delete-files") as pool:
            list(pool.map(partial(_delete_file, folder), alone))
    if len(paths) > 1:
        _check_gone(folder, paths)


def _is_misread(path: str) -> bool:
    """Whether the clients' deletion in bulk takes it for a pattern, or for the name without its last slash."""
    return has_magic(path) or stands_for_folder(path)


def _delete_file(folder: Location, path: str) -> None:
    try:
        folder.fs.rm_file(path)
    except FileNotFoundError:
        return


def _check_gone(folder: Location, paths: Sequence[str]) -> None:
    folder.forget_listings()
    left = sorted(set(paths) & set(folder.fs.find(folder.path)))
    if left:
        raise PermissionError(errno.EACCES, f"{len(left)} files are still there after their deletion", left[0])
