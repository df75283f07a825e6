"""Fixtures of the whole suite: one real Spark Connect server for everything that is marked `spark`, one Airflow home.

The home is set before any test module can import Airflow, which reads it then.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.java_options import java_options
from tests.scratch import write_to_memory

write_to_memory()
AIRFLOW_HOME = tempfile.mkdtemp(prefix="airflow-abs-tests-")
atexit.register(shutil.rmtree, AIRFLOW_HOME, ignore_errors=True)
os.environ |= {
    "AIRFLOW_HOME": AIRFLOW_HOME,
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__ADAPTIVE_SPARK__EXCHANGE": f"file://{AIRFLOW_HOME}/exchange",
    "AIRFLOW__ADAPTIVE_SPARK__DURABILITY": "always",
    "AIRFLOW__ADAPTIVE_SPARK__SHARE_TASKS": "False",
    "AIRFLOW__ADAPTIVE_SPARK__CHAINING": "False",
}

os.environ["JDK_JAVA_OPTIONS"] = java_options()

if TYPE_CHECKING:
    from upath import UPath

    from airflow_abs.spark.connect.endpoint import ConnectEndpoint
    from tests.installed_wheel import InstalledWheel
    from tests.s3_server import S3Server


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
NOT_TESTED = "not tested: "


def pytest_configure(config: pytest.Config) -> None:
    from tests.distribution import Seconds
    from tests.logs_of_failures import LogsOfFailures

    # As Ctrl-C: a run that is cancelled or takes too long ends its services and servers, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    config.pluginmanager.register(Seconds())
    config.pluginmanager.register(LogsOfFailures())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.distribution import GroupScheduling

    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by `tests/distribution.py`, and skip what this host lacks a program for.

    Not without Java: what needs one says itself where it looked.
    """
    from testbed.host import JAVA, NEEDS, find_missing
    from tests.distribution import rank_of

    items.sort(key=lambda item: rank_of(item.nodeid))
    missing = find_missing([need for need in NEEDS if need.marker != JAVA])
    reasons = {each.need.marker: each.reason for each in missing}
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        for marker, reason in reasons.items():
            if item.get_closest_marker(marker) is not None:
                item.add_marker(pytest.mark.skip(reason=f"{NOT_TESTED}{reason}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ()) if report.longrepr]
    reasons = Counter(reason for each in told if (reason := each.partition(NOT_TESTED)[2]))
    for reason, count in reasons.items():
        terminalreporter.write_line(f"NOT TESTED: {count} of the tests collected here, because {reason}", yellow=True)


@dataclass(frozen=True, slots=True)
class AirflowEnvironment:
    """What a process needs to load the example DAGs."""

    variables: Mapping[str, str]
    dags: str


@pytest.fixture(scope="session")
def s3_of_session() -> Iterator[S3Server]:
    from tests.s3_server import S3Server

    server = S3Server()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def s3(s3_of_session: S3Server) -> S3Server:
    """An S3 server that has counted nothing yet."""
    s3_of_session.forget()
    return s3_of_session


@pytest.fixture
def s3_root(s3: S3Server) -> UPath:
    """An empty bucket of its own on that server."""
    from upath import UPath

    bucket = f"b-{uuid.uuid4().hex}"
    s3.make_bucket(bucket)
    return UPath(f"s3://{bucket}/exchange", key="k", secret="s", endpoint_url=s3.url)


@pytest.fixture(scope="session")
def airflows_logging() -> None:
    """Airflow replaces all log handlers when it is first imported, caplog's too: not in the middle of a test."""
    import airflow  # noqa: F401


@pytest.fixture(scope="session")
def airflow_environment() -> AirflowEnvironment:
    return AirflowEnvironment(dict(os.environ), str(Path(__file__).parent.parent / "dags"))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> InstalledWheel:
    """The wheel, built and installed once."""
    from tests.installed_wheel import install_wheel

    return install_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectEndpoint]:
    """The endpoint of one embedded Connect server, started once, shared by all tests, stopped at the end.

    It ends response streams after 2 s (not 2 min), so every longer operation of every test is reattached to, and
    reports progress every 0.2 s (not 2 s). `make test-spark-versions` has it of other releases of Spark.
    """
    from airflow_abs.spark.connect.abilities import TRIED, release_number
    from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
    from airflow_abs.spark.server.embedded_state import EmbeddedSettings
    from testbed.environments import SERVER_RELEASE, server_of

    folder = tmp_path_factory.mktemp("embedded-spark")
    folder.chmod(0o700)
    settings = EmbeddedSettings(
        cores=2,
        driver_memory="2500m",  # with less an eighth of its time went into collecting garbage
        idle_seconds=3600,  # longer than the service tests between two uses; bounded, should a test run be killed
        conf=(
            ("spark.connect.execute.reattachable.senderMaxStreamDuration", "2s"),
            ("spark.connect.progress.reportInterval", "200ms"),
            ("spark.sql.shuffle.partitions", "4"),
        ),
    )
    if SERVER_RELEASE in os.environ:
        release = os.environ[SERVER_RELEASE]
        with pytest.MonkeyPatch.context() as patch, server_of(release, folder, settings) as endpoint:
            # What other releases lack is found by trying.
            number = release_number(release)
            patch.setitem(TRIED, number[:2], (*TRIED.get(number[:2], ()), number[2]))
            yield endpoint
        return
    try:
        yield ensure_embedded_server(folder, settings=settings)
    finally:
        stop_embedded_server(folder)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Started once for the tests of a module."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    from testbed.host import search_path

    paths = [shutil.which(name, path=search_path()) for name in ("chromium", "chromedriver")]
    options = webdriver.ChromeOptions()
    options.binary_location = str(paths[0])
    for flag in (*CHROMIUM_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(paths[1])))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def browser(chromium: Any) -> Iterator[Any]:
    """Chromium with one empty tab of 1280 x 1000 that nobody has used, and nothing that other tests have left.

    What its console says is an error unless Airflow's own page says it.
    """
    used = chromium.window_handles
    chromium.switch_to.new_window("tab")
    own = chromium.current_window_handle
    for each in used:
        chromium.switch_to.window(each)
        chromium.close()
    chromium.switch_to.window(own)
    chromium.set_window_size(1280, 1000)
    chromium.get_log("browser")  # what the closed pages said last, such as that the server of their test has ended
    yield chromium
    told = [entry["message"] for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"]
    chromium.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "cookies,local_storage"})
    assert [message for message in told if "adaptive_spark" in message and "favicon" not in message] == []


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """Kept after the tests: build/screenshots."""
    folder = Path(__file__).parents[1] / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
