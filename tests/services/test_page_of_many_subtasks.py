"""The tab "Adaptive plan" of a run of 2,000 subtasks: real Airflow, real browser; nothing of the run ever ran."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.exchange.paths import JobFolder
from tests.plugins.pages import wait_for
from tests.recorded_runs import wide_run
from tests.services.airflow_pages import copy_run, open_page
from tests.services.watched_run import WatchedRun

pytestmark = [pytest.mark.services, pytest.mark.spark]


def test_a_thousand_subtasks_come_through_the_api_server(
    browser: Any, finished: WatchedRun, folder: Path, screenshots: Path
) -> None:
    """Rows of the database and files of the exchange, none of which anybody has read before. How long it takes says as
    much about the machine as about the page; Airflow's own listing of these task instances, right after it, does too.
    """
    counts = {"orders": 1000, "customers": 1, "enriched": 1000, "by_region": 2}
    run = copy_run(finished, "wide", days=1000, widened=counts)
    wide_run(JobFolder(folder / "exchange", run.dag_id, run.run_id, "revenue"), 1000).run()
    open_page(browser, run)
    wait_for(browser, "performance.getEntriesByName('drawn').length")
    for name, count in counts.items():
        cells = f"document.querySelectorAll('[data-region={name}] .cell.done').length"
        assert browser.execute_script(f"return {cells}") == count
    browser.save_screenshot(str(screenshots / "thousand-in-airflow.png"))
    figures = browser.execute_script(
        "const [run] = performance.getEntriesByType('resource').filter((each) => each.name.includes('api/run'));"
        "const [drawn] = performance.getEntriesByName('drawn');"
        "return { answered_ms: run.responseEnd - run.startTime, drawn_ms: drawn.startTime }"
    )
    started = time.monotonic()
    assert len(run.airflow.api.task_instances(run.dag_id, run.run_id)) > sum(counts.values())
    figures["listed_ms"] = 1000 * (time.monotonic() - started)
    (screenshots / "thousand-in-airflow.json").write_text(json.dumps(figures))
    print(figures)
