"""The job's `py_files` in the session of `plan`, and in its process while transforms are called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.py_files import PyFile, read_py_file
from airflow_abs.spark.transforms.by_value import importable


@contextmanager
def with_py_files(session: Any, folder: JobFolder, py_files: Sequence[PyFile]) -> Iterator[None]:
    """Inside the block transforms import from the stored files, and so do functions that Spark calls while it analyses.

    Raises:
        MissingFileError, DamagedFileError: as `read_py_file`.
    """
    if not py_files:
        yield
        return
    with TemporaryDirectory(prefix="airflow-abs-py-") as name:
        files = [Path(name).resolve() / str(number) / file.shipped_name for number, file in enumerate(py_files)]
        for path, file in zip(files, py_files, strict=True):
            path.parent.mkdir()
            path.write_bytes(read_py_file(folder, file))
        with importable(files):
            session.addArtifacts(*map(str, files), pyfile=True)
            yield
