"""Ways to the page of a run in a browser, and what the exchange has of that run."""

from __future__ import annotations

import time
from pathlib import Path
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
