"""Ways to the page of a run in a browser, and what the exchange has of that run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.runs.run_view import RunView
from tests.plugins.pages import WAIT, wait_for
from tests.services.watched_run import WatchedRun

FRAME = "iframe[title='Adaptive plan']"


def open_tab(browser: Any, run: WatchedRun, address: str | None = None) -> None:
    """Open the tab in Airflow's UI and go into its frame."""
    browser.get(run.airflow.url)
    wait_for(browser, "document.readyState === 'complete'")
    browser.get(address or run.plan)
    enter_tab(browser)


def enter_tab(browser: Any) -> None:
    """Airflow's UI may draw the frame anew while it loads; then it is entered again."""
    from selenium.common.exceptions import NoSuchElementException, NoSuchFrameException, StaleElementReferenceException

    deadline = time.monotonic() + WAIT
    while True:
        browser.switch_to.default_content()
        try:
            browser.switch_to.frame(browser.find_element("css selector", FRAME))
            if browser.execute_script("return document.querySelector('#page')?.getAttribute('aria-busy')") == "false":
                return
        except (NoSuchElementException, NoSuchFrameException, StaleElementReferenceException):
            pass
        assert time.monotonic() < deadline, f"the tab did not open: {browser.current_url}"
        time.sleep(0.2)


def open_page(browser: Any, run: WatchedRun, more: str = "") -> None:
    """Open the page by itself, signed in."""
    browser.get(run.airflow.url)
    wait_for(browser, "document.cookie !== null && document.querySelector('nav, main, #root *')")
    browser.get(run.page + more)
    wait_for(browser, "document.querySelector('#page')?.getAttribute('aria-busy') === 'false'")


def recorded(folder: Path, run: WatchedRun, job: str) -> RunView:
    return read_run(JobFolder(folder / "exchange", run.dag_id, run.run_id, job))


def copy_run(
    run: WatchedRun, run_id: str, *, days: int, widened: Mapping[str, int] = MappingProxyType({})
) -> WatchedRun:
    """A run so many days later in Airflow's database alone: nothing of it ran, nothing is in the exchange."""
    counts = [f"revenue.{name}.run={count}" for name, count in widened.items()]
    script = str(Path(__file__).with_name("copy_run.py"))
    command = [sys.executable, "-W", "ignore", script, run.dag_id, run.run_id, run_id, str(days), *counts]
    subprocess.run(command, env=run.airflow.env, check=True)
    return WatchedRun(run.airflow, run.dag_id, run_id)
