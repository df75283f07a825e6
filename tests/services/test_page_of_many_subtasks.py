"""The tab "Adaptive plan" of a run of 2,000 subtasks: real Airflow, real browser; nothing of the run ever ran."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.demo.services import AirflowServices
from airflow_abs.exchange.paths import JobFolder
from benchmarks.cpu_time import read_processes, seconds_by_part
from tests.plugins.pages import wait_for
from tests.recorded_runs import wide_run
from tests.services.airflow_pages import copy_run, open_page
from tests.services.watched_run import WatchedRun

pytestmark = [pytest.mark.services, pytest.mark.spark]


def test_a_thousand_subtasks_come_through_the_api_server(
    browser: Any, finished: WatchedRun, folder: Path, screenshots: Path
) -> None:
    """Rows of the database and files of the exchange, none of which anybody has read before. How long it takes says as
    much about the machine as about the page: so the CPU seconds of the api-server are measured, too, and what Airflow's
    own listing of these task instances, right after it, takes of both.
    """
    counts = {"orders": 1000, "customers": 1, "enriched": 1000, "by_region": 2}
    run = copy_run(finished, "wide", days=1000, widened=counts)
    wide_run(JobFolder(folder / "exchange", run.dag_id, run.run_id, "revenue"), 1000).run()
    open_page(browser, finished)  # signs in, and builds the page's application
    before = cpu_seconds(run.airflow)
    browser.get(run.page)
    wait_for(browser, "performance.getEntriesByName('drawn').length")
    figures = {"answered_cpu_s": cpu_seconds(run.airflow) - before}
    for name, count in counts.items():
        cells = f"document.querySelectorAll('[data-region={name}] .cell.done').length"
        assert browser.execute_script(f"return {cells}") == count
    browser.save_screenshot(str(screenshots / "thousand-in-airflow.png"))
    figures |= browser.execute_script(
        "const [run] = performance.getEntriesByType('resource').filter((each) => each.name.includes('api/run'));"
        "const [drawn] = performance.getEntriesByName('drawn');"
        "return { answered_ms: run.responseEnd - run.startTime, drawn_ms: drawn.startTime }"
    )
    started, before = time.monotonic(), cpu_seconds(run.airflow)
    assert len(run.airflow.api.task_instances(run.dag_id, run.run_id)) > sum(counts.values())
    figures |= {"listed_ms": 1000 * (time.monotonic() - started), "listed_cpu_s": cpu_seconds(run.airflow) - before}
    (screenshots / "thousand-in-airflow.json").write_text(json.dumps(figures))
    print(figures)


def cpu_seconds(airflow: AirflowServices) -> float:
    """Of the api-server, since it started."""
    server = {"api-server": airflow._processes["api-server"].pid}
    return seconds_by_part(read_processes(), os.getpid(), server)["api-server"]
