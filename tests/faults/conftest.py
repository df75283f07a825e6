"""One real Airflow with one real Spark for all service tests of this folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from airflow_abs.demo.services import AirflowServices
from tests.faults.suite import faulty_airflow

SUBTASKS = 20
SECONDS = 240.0  # of a machine that does much else; on a quiet one nothing here takes thirty
STOP_SECONDS = 120.0  # on a quiet machine it is six


def wait_until(what: Callable[[], bool], seconds: float = SECONDS, *, seen: Callable[[], object] = str) -> float:
    """Seconds until it was so; they are no measure of the project but of the machine. `seen` is told if it never is."""
    started = time.monotonic()
    while not what():
        assert time.monotonic() - started < seconds, f"not so after {seconds:g} s: {seen()}"
        time.sleep(0.2)
    return time.monotonic() - started


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gets lake, mart, exchange and Spark's event logs."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="package")
def airflow(folder: Path) -> Iterator[AirflowServices]:
    numbers = folder / "lake" / "numbers"
    numbers.mkdir(parents=True)
    for part in range(SUBTASKS):
        duckdb.sql(f"COPY (SELECT {part} AS number) TO '{numbers}/part-{part:02}.parquet'")
    (folder / "mart" / "gates").mkdir(parents=True)
    with faulty_airflow(folder) as services:
        yield services
