from __future__ import annotations

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_abs.exchange.errors import DamagedFileError, ExchangeUnreachableError
from airflow_abs.exchange.paths import JobFolder, escape
from airflow_abs.exchange.records.server_record import (
    RunServer,
    delete_start,
    find_address,
    prepare_start,
    read_announcement,
    read_server,
    write_server,
)
from airflow_abs.exchange.runs.cleaning import release_job
from airflow_abs.exchange.storage.locations import Location
from airflow_abs.exchange.storage.whole_files import write_json

STARTED = json.dumps(
    {
        "Event": "org.apache.spark.sql.connect.service.SparkListenerConnectServiceStarted",
        "hostAddress": "worker-7",
        "bindingPort": 36871,
        "eventTime": 1795273816837,
    }
)
OTHERS = '{"Event":"SparkListenerLogStart","Spark Version":"4.2.0"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path, "dag", "run", "job")


def test_a_record_comes_back_as_it_was_written(folder: JobFolder) -> None:
    assert read_server(folder) is None
    server = RunServer("k", "driver-1", 12.5, "worker-7", 36871, trusted_network=True)
    write_server(folder, server)
    assert read_server(folder) == server


def test_a_record_that_somebody_else_wrote_is_refused_by_field(folder: JobFolder) -> None:
    write_json(folder.server_path, {"key": "k", "application": 7, "submitted": 1, "host": "", "port": 0})
    with pytest.raises(DamagedFileError, match=r"server.json: Expected `str`, got `int` - at `\$.application`"):
        read_server(folder)


@pytest.mark.parametrize("log", ["", OTHERS, OTHERS + STARTED[:-1], OTHERS + STARTED[:60]])
def test_what_is_not_wholly_written_yet_announces_nothing(log: str) -> None:
    assert find_address(log.encode()) is None


def test_the_address_is_found_under_any_name_of_the_file_and_beside_the_jar(folder: JobFolder) -> None:
    assert read_announcement(folder, "k") is None
    start = prepare_start(folder, "k")
    assert isinstance(start, Path)
    assert zipfile.ZipFile(start / "application.jar").namelist() == []
    assert read_announcement(folder, "k") is None
    (start / "app-1.inprogress").write_text(OTHERS + STARTED + "\n")
    assert read_announcement(folder, "k") == ("worker-7", 36871)
    for _ in range(2):
        delete_start(folder, "k")
    assert not start.exists()


def test_no_region_can_have_the_folder_of_a_start(folder: JobFolder) -> None:
    assert escape("_server-k") != "_server-k"


def test_the_record_outlives_the_release_of_the_run(folder: JobFolder) -> None:
    write_server(folder, RunServer("k", "", 1.0))
    prepare_start(folder, "k")
    release_job(folder)
    assert [path.name for path in Path(str(folder.path)).iterdir()] == ["server.json"]


def test_an_object_store_is_refused_because_it_shows_no_file_that_is_being_written() -> None:
    store: Any = SimpleNamespace(protocol=("s3", "s3a"))
    folder = JobFolder(Location(store, "bucket/exchange"), "dag", "run", "job")
    with pytest.raises(ExchangeUnreachableError) as caught:
        prepare_start(folder, "k")
    assert str(caught.value) == (
        "s3://bucket/exchange/dag/run/job/_server-k: a run's Spark server announces its address in a file that it "
        "keeps open, which object stores do not show; give Ephemeral(folder=...) a file system that both Airflow and "
        "Spark mount"
    )
