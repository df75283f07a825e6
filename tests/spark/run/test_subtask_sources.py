"""Sources in folders: partitions, subfolders, globs."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.graph.job_graph import JobVertex
from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.errors import SourceChangedError
from tests.job_runner import plan_run, program_of, rows, run_job

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = [pytest.mark.spark, pytest.mark.sample]


@pytest.mark.parametrize("declared", [None, "ds DATE, number BIGINT"])
def test_partition_folders_of_a_source_are_columns(
    connect_server: ConnectEndpoint, tmp_path: Path, declared: str | None
) -> None:
    for day in (1, 2, 3):
        folder = tmp_path / "lake" / f"ds=2026-01-0{day}"
        folder.mkdir(parents=True)
        duckdb.sql(f"COPY (SELECT range AS number FROM range({day * 10})) TO '{folder}/part.parquet'")
    run = run_job(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("numbers", has_source=True, has_sink=True)],
        [],
        [program_of("numbers", None, {}, Files(f"{tmp_path}/lake", schema=declared), Files(f"{tmp_path}/out"))],
        target_bytes=1,
    )
    assert run.decisions["numbers"].parallelism == 3
    counted = rows(f"SELECT ds::DATE::VARCHAR, count(*) FROM '{tmp_path}/out/*.parquet' GROUP BY 1")
    assert counted == [("2026-01-01", 10), ("2026-01-02", 20), ("2026-01-03", 30)]


def test_a_recursive_source_finds_the_files_of_all_subfolders(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    for part, folder in enumerate((tmp_path / "lake", tmp_path / "lake" / "a", tmp_path / "lake" / "a" / "b")):
        folder.mkdir(parents=True, exist_ok=True)
        duckdb.sql(f"COPY (SELECT {part} AS part) TO '{folder}/part.parquet'")
    source = Files(f"{tmp_path}/lake", options={"recursiveFileLookup": "true"})
    run_job(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("parts", has_source=True, has_sink=True)],
        [],
        [program_of("parts", None, {}, source, Files(f"{tmp_path}/out"))],
    )
    assert rows(f"FROM '{tmp_path}/out/*.parquet'") == [(0,), (1,), (2,)]


def test_partition_folders_below_a_glob_are_refused(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    folder = tmp_path / "lake-1" / "ds=2026-01-01"
    folder.mkdir(parents=True)
    duckdb.sql(f"COPY (SELECT 1 AS number) TO '{folder}/part.parquet'")
    with pytest.raises(ExchangeError, match=r"lies in a partition folder \(ds=2026-01-01\) below a glob"):
        run_job(
            connect_server,
            tmp_path / "exchange",
            [JobVertex("numbers", has_source=True)],
            [],
            [program_of("numbers", None, {}, Files(f"{tmp_path}/lake-*"))],
        )


def with_its_file(numbers: Any) -> Any:
    return numbers.select("number", "ds", numbers.metadataColumn("_metadata").getField("file_name").alias("file"))


@pytest.mark.parametrize("declared", [None, "number BIGINT, ds DATE"])
def test_a_source_has_the_metadata_of_its_files(
    connect_server: ConnectEndpoint, tmp_path: Path, declared: str | None
) -> None:
    """Subtasks with files, and one without any: the folder of a day without data."""
    for day in (1, 2):
        folder = tmp_path / "lake" / f"ds=2026-01-0{day}"
        folder.mkdir(parents=True)
        duckdb.sql(f"COPY (SELECT {day}::BIGINT AS number) TO '{folder}/of-{day}.parquet'")
    (tmp_path / "nothing").mkdir()
    lake, nothing = (
        Files(f"{tmp_path}/lake", schema=declared),
        Files(f"{tmp_path}/nothing", schema="number INT, ds DATE"),
    )
    run_job(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("numbers", has_source=True, has_sink=True), JobVertex("none", has_source=True, has_sink=True)],
        [],
        [
            program_of("numbers", with_its_file, {}, lake, Files(f"{tmp_path}/out")),
            program_of("none", with_its_file, {}, nothing, Files(f"{tmp_path}/empty")),
        ],
        target_bytes=1,
    )
    found = rows(f"SELECT number, ds::VARCHAR, file FROM '{tmp_path}/out/*.parquet'")
    assert found == [(1, "2026-01-01", "of-1.parquet"), (2, "2026-01-02", "of-2.parquet")]
    assert rows(f"FROM '{tmp_path}/empty/*.parquet'") == []


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "emptied": (lambda file: file.write_bytes(b""), r"has 0 bytes, had \d+"),
    "replaced": (lambda file: duckdb.sql(f"COPY (SELECT 1 AS number FROM range(7)) TO '{file}'"), r"has \d+ bytes"),
    "written again": (lambda file: os.utime(file, (1, 1)), "was rewritten with the same size"),
    "other columns": (lambda file: duckdb.sql(f"COPY (SELECT 'x' AS number) TO '{file}'"), r"has \d+ bytes"),
    "deleted": (lambda file: file.unlink(), "is gone"),
}


@pytest.mark.parametrize(("change", "told"), CHANGES.values(), ids=CHANGES)
def test_a_file_that_is_not_what_decide_listed_fails_its_subtask_and_is_named(
    connect_server: ConnectEndpoint, tmp_path: Path, change: Callable[[Path], object], told: str
) -> None:
    (tmp_path / "lake").mkdir()
    for part in range(3):
        duckdb.sql(f"COPY (SELECT range AS number FROM range(100)) TO '{tmp_path}/lake/{part}.parquet'")
    run = plan_run(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("numbers", has_source=True, has_sink=True)],
        [],
        [program_of("numbers", None, {}, Files(f"{tmp_path}/lake"), Files(f"{tmp_path}/out"))],
    )
    run.decide("numbers")
    changed = tmp_path / "lake" / "1.parquet"
    change(changed)
    with pytest.raises(SourceChangedError) as caught:
        asyncio.run(run.run_subtask("numbers", 0))
    assert not caught.value.restartable
    message = str(caught.value)
    assert re.match(rf"source {tmp_path}/lake: file://{changed} {told}", message)
    assert (
        ": not the file that decide listed. Clear numbers.decide and everything after it (plan as well if the columns "
        "are others now), and do not overwrite files of a source while a run reads it" in message
    )
    before = read_decision(run.folder, "numbers").digest
    if changed.exists() and change is not CHANGES["other columns"][0]:
        run.decide("numbers")
        assert read_decision(run.folder, "numbers").digest != before
        asyncio.run(run.run_subtask("numbers", 0, attempt=2))
