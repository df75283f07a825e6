"""Vertices of one Spark operation fill up one after the other while it runs: real Airflow, Spark and browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.plugins.pages import wait_for
from tests.services.airflow_pages import open_page
from tests.services.watched_run import StartRun

pytestmark = [pytest.mark.services, pytest.mark.spark]

SHARES = """(() => {
    const shares = {};
    for (const box of document.querySelectorAll('.box')) {
        const width = (name) => box.querySelector(`.${name}`)?.getBoundingClientRect().width ?? 0;
        const whole = width('fill-running');
        shares[box.querySelector('.vertex').textContent] = whole ? width('fill-progress') / whole : 0;
    }
    return shares;
})()"""


def test_the_vertices_of_one_operation_fill_up_one_after_the_other(
    browser: Any, start_run: StartRun, folder: Path, screenshots: Path
) -> None:
    lake = folder / "data" / "eight_files"
    lake.mkdir(parents=True)
    for number in range(8):
        duckdb.sql(
            f"COPY (SELECT range % 100 AS number, {number} AS copy FROM range(100)) TO '{lake}/{number}.parquet'"
        )
    browser.set_window_size(1280, 900)
    run = start_run("long_operation", 0)
    open_page(browser, run)
    seen: list[dict[str, float]] = []
    for number, reached in enumerate(("rows > 0", "rows === 1", "sums === 1")):
        script = f"(({{rows, sums, digits}}) => {reached} && {{rows, sums, digits}})({SHARES})"
        seen.append(wait_for(browser, script, seconds=300))
        browser.save_screenshot(str(screenshots / f"one-operation-{number}.png"))
    assert run.wait() == "success"
    # Spark groups the rows of a vertex in its last stage for the next one, so two may fill up at a time.
    assert all(1 >= each["rows"] >= each["sums"] >= each["digits"] for each in seen)
    assert seen[0]["digits"] < seen[2]["digits"]
    for vertex in ("rows", "sums", "digits"):
        assert [each[vertex] for each in seen] == sorted(each[vertex] for each in seen), vertex
    wait_for(browser, "document.querySelectorAll('.box.inside .fill-done').length === 2")
    browser.save_screenshot(str(screenshots / "one-operation-3.png"))
    counted = duckdb.sql(f"SELECT digit, count FROM '{folder}/mart/long_operation/*.parquet' ORDER BY digit").fetchall()
    assert counted == [(digit, 13 if digit < 4 else 12) for digit in range(8)]
