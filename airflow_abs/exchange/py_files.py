"""`py_files` of a job: Python code that lies in none of Spark's environments, kept with the run.

`plan` copies the files beside its plan, so that every subtask, retry and recomputation has the same code, wherever it
runs and whatever happens to the author's files.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.errors import DamagedFileError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import read_bytes, write_atomic

_SUFFIXES = (".py", ".zip", ".whl")


@dataclass(frozen=True, slots=True)
class PyFile:
    """One file: its name, and the SHA-256 of its content in hex."""

    name: str
    digest: str

    @property
    def shipped_name(self) -> str:
        """What Spark takes it for: a wheel is a zip file, and Spark knows no other name for one."""
        return f"{self.name.removesuffix('.whl')}.zip" if self.name.endswith(".whl") else self.name


def check_py_files(job: str, paths: Sequence[str]) -> None:
    """What can be seen of them when the DAG is parsed.

    Raises:
        JobGraphError: one that Python cannot import, or two of one name.
    """
    for path in paths:
        if not isinstance(path, str) or PurePosixPath(path).suffix not in _SUFFIXES:
            raise JobGraphError(
                f"job {job!r}: {path!r} of py_files is none of {', '.join(_SUFFIXES)}; give modules as .py and "
                "packages as .zip or .whl"
            )
    names = Counter(PyFile(PurePosixPath(path).name, "").shipped_name for path in paths)
    if twice := [name for name, times in names.items() if times > 1]:
        raise JobGraphError(
            f"job {job!r}: several of its py_files are called {twice[0]}, and a Spark session has one of that name; "
            "rename one"
        )


def store_py_files(
    folder: JobFolder, paths: Sequence[str], open_path: Callable[[str], ExchangePath]
) -> tuple[PyFile, ...]:
    """Copy them into the run's folder.

    Raises:
        JobGraphError: one is not there.
        ExchangeUnreachableError: they cannot be written.
    """
    stored = []
    for path in paths:
        try:
            data = read_bytes(open_path(path))
        except MissingFileError as error:
            raise JobGraphError(
                f"job {folder.job!r}: {path} of py_files is not there; expected a file that the worker of `plan` can "
                "read, by its absolute path or beside the DAG file"
            ) from error
        file = PyFile(PurePosixPath(path).name, hashlib.sha256(data).hexdigest())
        write_atomic(folder.py_file_path(file.digest), data)
        stored.append(file)
    return tuple(stored)


def read_py_file(folder: JobFolder, file: PyFile) -> bytes:
    """The content that `plan` stored.

    Raises:
        MissingFileError, DamagedFileError: it is gone, or another one.
    """
    path = folder.py_file_path(file.digest)
    data = read_bytes(path)
    if hashlib.sha256(data).hexdigest() != file.digest:
        raise DamagedFileError(
            f"{path}: the content of {file.name} does not have the checksum that plan.json names; it was altered: "
            "clear the plan task and everything after it",
            path=str(locate(path)),
        )
    return data
