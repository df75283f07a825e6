"""Deleting many files of one file system: in as few requests as its client can."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from glob import has_magic

from airflow_abs.exchange.storage.locations import Location


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
    at_once = [path for path in paths if not has_magic(path)]  # the clients take others for patterns
    try:
        if at_once:
            folder.fs.rm(at_once)
    except FileNotFoundError:  # another process deletes here, too: which are left?
        for path in at_once:
            _delete_file(folder, path)
    for path in paths:
        if has_magic(path):
            _delete_file(folder, path)
    if len(at_once) > 1:
        _check_gone(folder, at_once)


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
