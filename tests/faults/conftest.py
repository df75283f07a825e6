"""One real Airflow with one real Spark for all service tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from airflow_abs.demo.services import SERVICES, AirflowServices
from tests.faults.suite import faulty_airflow

SUBTASKS = 20
STOP_SECONDS = 120.0  # on a quiet machine it is six


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
        assert [each for each in SERVICES if not services.is_running(each)] == []  # none has ended by itself
