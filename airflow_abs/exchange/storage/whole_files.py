"""Small files, written whole or not at all, and checked when they are read back."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_abs.exchange.errors import (
    DamagedFileError,
    ExchangeUnreachableError,
    IncompatibleFileError,
    MissingFileError,
)
from airflow_abs.exchange.storage.client_errors import (
    is_contended,
    is_taken,
    raise_if_throttled,
    raise_unread,
    reason_of,
    storage_errors,
)
from airflow_abs.exchange.storage.locations import ExchangePath, Location, locate

_CHECKSUM = re.compile(rb',"checksum":"([0-9a-f]{32})"}$')
_CONTENDED_TRIES = 5
_FOLDER_TRIES = 100
_DO = "clear the task that writes it"


def write_atomic(path: ExchangePath, data: bytes) -> None:
    """Write a file so that readers see the old content or the new, never a part; missing folders are made.

    Local: a temporary file in the same folder, synced, then renamed over. Elsewhere: one put, which object stores
    make visible at once; on other remote file systems (HDFS, SFTP) a reader can see a part of it, which the
    checksum of `read_json` then refuses.

    Raises:
        ExchangeUnreachableError: the storage refuses the write; nothing (or the old content) is there.
    """
    location = locate(path)
    try:
        if location.is_local:
            _replace_local(location, data)
        else:
            location.fs.pipe_file(location.path, data)
    except storage_errors() as error:
        raise_if_throttled(location, error)
        raise ExchangeUnreachableError(
            f"{location}: cannot be written ({reason_of(error)}); check that the folder is writable and not full"
        ) from error


def create_exclusively(path: ExchangePath, data: bytes) -> bool:
    """Write a file that is not there yet, with its whole content; False if it is there.

    Local: a temporary file, linked to its name. Elsewhere: one conditional put (`If-None-Match: *` on S3), which is
    exclusive on stores that know it. If the store's answer is lost, the client sends the put again and is told that the
    file is there: the caller must check whether it is its own.

    Raises:
        ExchangeUnreachableError: the storage refuses the write, or does not know conditional puts.
    """
    location = locate(path)
    try:
        return _link_local(location, data) if location.is_local else _put_if_absent(location, data)
    except storage_errors() as error:
        raise_if_throttled(location, error)
        raise ExchangeUnreachableError(
            f"{location}: cannot be created ({reason_of(error)}); check that the folder is writable, and that the "
            "storage supports conditional writes"
        ) from error


def read_bytes(path: ExchangePath) -> bytes:
    """The content of a file.

    Raises:
        MissingFileError: there is no such file.
        ExchangeUnreachableError: it cannot be read.
    """
    return _read(locate(path))


def _read(location: Location) -> bytes:
    try:
        if not location.is_local:
            return location.read_whole()
        with open(location.path, "rb") as file:  # noqa: PTH123  (parsing the path again costs more than reading it)
            return file.read()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingFileError(f"{location}: no such file; {_DO}", path=str(location)) from error
    except storage_errors() as error:
        raise_unread(location, error)


def write_json(path: ExchangePath, payload: Mapping[str, Any], *, version: int = 1) -> None:
    """Write a JSON object, compact, as `{"version": .., <payload>, "checksum": ..}`.

    Raises:
        ValueError: the payload has a key `version` or `checksum`, or holds NaN or an infinity.
        ExchangeUnreachableError: see `write_atomic`.
    """
    write_atomic(path, encode_json(payload, version=version))


def read_json(path: ExchangePath, *, version: int = 1) -> dict[str, Any]:
    """The payload that `write_json` wrote, without `version` and `checksum`.

    Raises:
        MissingFileError: there is no such file.
        DamagedFileError: truncated, altered or not written by `write_json`.
        IncompatibleFileError: written in another format version.
        ExchangeUnreachableError: it cannot be read.
    """
    location = locate(path)
    return decode_json(_read(location), where=str(location), version=version)


def encode_json(payload: Mapping[str, Any], *, version: int = 1) -> bytes:
    """The bytes of `write_json`; the checksum is the last key and covers every byte before it."""
    if reserved := {"version", "checksum"} & payload.keys():
        raise ValueError(f"payload keys {sorted(reserved)} are reserved for the envelope; use other names")
    body = json.dumps({"version": version, **payload}, separators=(",", ":"), allow_nan=False).encode()
    return body[:-1] + f',"checksum":"{_digest(body)}"}}'.encode()


def decode_json(data: bytes, *, where: str, version: int = 1) -> dict[str, Any]:
    """Check and parse what `encode_json` gave; `where` names the file in errors."""
    match = _CHECKSUM.search(data)
    if match is None:
        raise DamagedFileError(
            f"{where}: {len(data)} bytes that do not end in a checksum; the file is truncated or was not written by "
            f"airflow_abs; {_DO}",
            path=where,
        )
    body = data[: match.start()] + b"}"
    if _digest(body) != match[1].decode():
        raise DamagedFileError(f"{where}: content does not match its checksum; it was altered; {_DO}", path=where)
    try:
        payload: dict[str, Any] = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(
            f"{where}: has a valid checksum but is not JSON ({error}); it was not written by airflow_abs; {_DO}",
            path=where,
        ) from error
    if (found := payload.pop("version", None)) != version:
        raise IncompatibleFileError(
            f"{where}: format version {found!r}, expected {version}; run the same airflow_abs version everywhere, "
            f"or {_DO}",
            path=where,
        )
    return payload


def check_writable(root: ExchangePath) -> None:
    """Write, read back and delete a probe file below `root`; the root is made if it is missing.

    Raises:
        ExchangeUnreachableError: naming the root and which of the three failed, and why.
    """
    probe = root / f".airflow_abs-probe-{secrets.token_hex(8)}"
    sent = secrets.token_bytes(64)
    location = locate(probe)
    step = "write"
    try:
        write_atomic(probe, sent)
        step = "read back"
        found = read_bytes(probe)
        step = "delete"
        location.fs.rm_file(location.path)
    except Exception as error:  # storage clients have their own exception trees; all of them mean this one thing
        cause = error.__cause__ or error
        raise ExchangeUnreachableError(
            f"exchange {str(root)!r}: Airflow cannot {step} a file there ({type(cause).__name__}: {cause}); "
            "check the path, its rights and the connection's credentials"
        ) from error
    if found != sent:
        raise ExchangeUnreachableError(
            f"exchange {str(root)!r}: a probe file of {len(sent)} bytes came back as {len(found)} other bytes; "
            "choose storage that returns what was written"
        )


def _replace_local(location: Location, data: bytes) -> None:
    target = location.local
    make_folder(target.parent)
    temporary = target.with_name(f".tmp-{os.getpid()}-{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(str(target.parent))


def _link_local(location: Location, data: bytes) -> bool:
    temporary = location.local.with_name(f".tmp-{os.getpid()}-{secrets.token_hex(8)}")
    write_atomic(temporary, data)
    try:
        os.link(temporary, location.path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _put_if_absent(location: Location, data: bytes) -> bool:
    for left in range(_CONTENDED_TRIES, 0, -1):
        try:
            location.fs.pipe_file(location.path, data, mode="create")
            break
        except OSError as error:
            if is_taken(error):
                return False
            if not is_contended(error) or left == 1:
                raise
    return True


def make_folder(folder: Path) -> None:
    """Make a local folder with those above it, also while others remove the empty ones among them.

    Raises:
        OSError: it is a file, or cannot be made.
    """
    for left in range(_FOLDER_TRIES, -1, -1):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, FileNotFoundError):  # it was there, or the one above it, and is gone
            if left == 0 or (folder.exists() and not folder.is_dir()):
                raise
        else:
            return


def sync_folder(folder: str) -> None:
    """Make renames in a local folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
