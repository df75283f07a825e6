"""A real Airflow with the plugin, runs to look at, and a headless Chromium to look with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.demo.generate import DataSpec, generate
from airflow_abs.demo.services import AirflowServices, example_environment
from tests.replayed import assert_all_replayed

DAYS = (date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3))
SCALE = 0.02
TARGET_BYTES = 80_000
SECONDS = 500.0
HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "dags"
# What Chromium needs to start as root on a machine without a screen or a network.
CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
)


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("watched")


@pytest.fixture(scope="package")
def airflow(folder: Path) -> Iterator[AirflowServices]:
    """Started once for these tests, and gone before those of other folders start theirs."""
    generate(DataSpec(folder / "data", DAYS, SCALE, hot_day=DAYS[2]))
    (folder / "dags").mkdir()
    for file in (EXAMPLES / "daily_revenue.py", HERE / "dags" / "watched.py"):
        shutil.copy(file, folder / "dags")
    environment = example_environment(folder, TARGET_BYTES) | {
        "PYTHONPATH": os.pathsep.join([str(HERE / "rights"), str(HERE.parents[1])]),  # this tree, wherever it is
        "AIRFLOW__CORE__AUTH_MANAGER": "keeper_of_secrets.KeeperOfSecrets",
    }
    with AirflowServices(folder / "airflow", folder / "dags", env=environment) as services:
        yield services
    assert_all_replayed(folder / "exchange")


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """One DAG run; `plan` is the address of its tab, `page` that of the page in it."""

    airflow: AirflowServices
    dag_id: str
    run_id: str

    @property
    def plan(self) -> str:
        return f"{self.airflow.url}/dags/{self.dag_id}/runs/{self.run_id}/plugin/adaptive-plan"

    @property
    def page(self) -> str:
        return f"{self.airflow.url}/adaptive_spark/plan?dag_id={self.dag_id}&run_id={self.run_id}"

    def wait(self) -> str:
        return self.airflow.api.wait_for_run(self.dag_id, self.run_id, SECONDS)


StartRun = Callable[..., WatchedRun]


@pytest.fixture(scope="package")
def start_run(airflow: AirflowServices) -> StartRun:
    """Trigger a DAG for one of `DAYS`, as its schedule would at the end of that day."""

    def start(dag_id: str, day: int = 2, run_id: str | None = None) -> WatchedRun:
        airflow.api.wait_for_dag(dag_id, SECONDS)
        date = DAYS[day] + timedelta(days=1)
        logical_date = datetime(date.year, date.month, date.day, tzinfo=UTC)
        return WatchedRun(airflow, dag_id, airflow.api.trigger_run(dag_id, logical_date, run_id=run_id or f"day-{day}"))

    return start


@pytest.fixture(scope="package")
def finished(start_run: StartRun) -> WatchedRun:
    """The example DAG on its day with a hot customer, after a day of few orders."""
    assert start_run("daily_revenue", day=1).wait() == "success"
    run = start_run("daily_revenue", day=2)
    assert run.wait() == "success"
    return run


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    """Chromium at 1280 x 1000; what its console says is an error unless Airflow's own page says it."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    from testbed.host import search_path

    paths = [shutil.which(name, path=search_path()) for name in ("chromium", "chromedriver")]
    options = webdriver.ChromeOptions()
    options.binary_location = str(paths[0])
    for flag in (*CHROMIUM_FLAGS, f"--user-data-dir={tmp_path / 'chromium'}", "--window-size=1280,1000"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(paths[1])))
    try:
        yield driver
        told = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert [message for message in told if "adaptive_spark" in message and "favicon" not in message] == []
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """Kept after the tests: build/screenshots."""
    folder = HERE.parents[1] / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
