"""The page over a made-up run, without Airflow: how fast it draws many subtasks, and how it shows every state."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from airflow_abs.exchange.storage.whole_files import write_json
from airflow_abs.plugins.run_reader import RunReader
from tests.file_reads import record_reads
from tests.plugins.pages import texts, wait_for
from tests.plugins.served_page import Served, facts, instances, read
from tests.recorded_runs import chain_run, revenue_run


@pytest.fixture
def reader() -> RunReader:
    return RunReader(Path)


@pytest.mark.slow
def test_a_thousand_subtasks_are_read_once_and_drawn(
    browser: Any, reader: RunReader, tmp_path: Path, screenshots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long it took is kept beside the screenshots; it says as much about the machine as about the page."""
    run = chain_run(tmp_path, regions=2, subtasks=1000)
    run.run()
    states = {
        ("r01", k): ("failed" if k == 700 else "running" if k > 900 else "success", 1 + (k % 9 == 0))
        for k in range(1000)
    }
    files = record_reads(monkeypatch)
    told = read(reader, run, tmp_path, instances(run, states), "failed")
    assert len(files) == len(set(files)) <= 1 + 2 + 2 * 1000  # plan, decisions, at most all manifests
    with Served(told, []) as address:
        browser.get(address)
        drawn = None
        deadline = time.monotonic() + 150
        while drawn is None and time.monotonic() < deadline:
            drawn = browser.execute_script("return performance.getEntriesByName('drawn')[0]?.startTime ?? null")
        assert browser.execute_script("return document.querySelectorAll('[data-region=r01] .cell').length") == 1000
        browser.save_screenshot(str(screenshots / "thousand-subtasks.png"))
        assert drawn is not None
        (screenshots / "thousand-subtasks.json").write_text(json.dumps({"drawn_ms": drawn}))
        browser.get_log("browser")  # there is no Airflow here to give the log of the failed one


def test_predictions_are_drawn_beside_what_came(browser: Any, reader: RunReader, tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    told = run.plan.to_json() | {
        "usual": {"orders": {"median": 800, "least": 700, "most": 900, "days": 5, "weekday": "Monday"}},
        "predictions": {"orders": {"seconds": 2.0, "input_bytes": 4000, "output_bytes": 2000, "from_history": True}},
    }
    write_json(run.folder.plan_path, told)
    run.run("orders")
    shown = read(reader, run, tmp_path, instances(run), "success")
    days = [
        {"parallelism": 4, "bytes_in": 4000, "seconds": 6.0, "predicted_seconds": 8.0},
        {"parallelism": 4, "bytes_in": 4000, "seconds": 2.55, "predicted_seconds": 2.0},
    ]
    history = [
        {**facts("success").to_json(), "run_id": name, "jobs": {"revenue": {"orders": day}}}
        for name, day in zip(("before", "run"), days, strict=True)
    ]
    with Served(shown, history) as address:
        browser.get(address)
        wait_for(browser, "document.querySelector('.took')")
        assert [title.split(": ")[1] for title in texts(browser, ".took title")] == [
            "6.0 s, predicted 8.0 s",
            "2.5 s, predicted 2.0 s",
        ]
        card = " ".join(texts(browser, "[data-region=orders] .facts div"))
        assert "(predicted 2.0 s)" in card
        assert "(predicted 2.0 KiB)" in card
        strange = "orders is 5.0 times its Monday median: 3.9 KiB instead of 800 B (5 Mondays: 700 B to 900 B)"
        assert f"⚠ {strange}" in texts(browser, "[data-region=orders] .chip.warn")
        browser.get_log("browser")


def test_a_strip_is_drawn_once_and_stays(browser: Any, reader: RunReader, tmp_path: Path) -> None:
    """No scroll bar that appears makes it anew under the hand of who has it in focus."""
    run = revenue_run(tmp_path)
    run.run()
    told = read(reader, run, tmp_path, instances(run), "success")
    count = """
        window.strips = 0;
        new MutationObserver((changes) => changes.forEach(({ addedNodes }) => addedNodes.forEach(
          (node) => { window.strips += node.classList?.contains("strip") ? 1 : 0; }
        ))).observe(document, { childList: true, subtree: true });
    """
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": count})
    browser.set_window_size(500, 900)
    with Served(told, []) as address:
        browser.get(address)
        shown = browser.execute_async_script(
            "const told = arguments[0];"
            "const look = () => window.strips ? setTimeout(() => requestAnimationFrame(() => told(window.strips)), 300)"
            " : setTimeout(look, 50); look()"
        )
        assert shown == 4
        browser.get_log("browser")


def test_focus_and_an_open_table_survive_a_refresh(browser: Any, reader: RunReader, tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run("orders", "customers")
    run.decide("enriched")
    told = read(reader, run, tmp_path, instances(run, {("enriched", k): ("deferred", 1) for k in range(6)}), "running")
    with Served(told, []) as address:
        browser.get(address)
        card = "[data-region=enriched]"
        wait_for(browser, f"document.querySelector('{card} .strip')")
        browser.execute_script(
            f"document.querySelector('{card} summary').click(); document.querySelector('{card} .strip').focus()"
        )
        browser.switch_to.active_element.send_keys(Keys.END)
        wait_for(browser, f"document.querySelectorAll('{card} tbody tr').length === 6")
        run.commit("enriched", 2)
        states = {("enriched", k): ("success" if k == 2 else "deferred", 1) for k in range(6)}
        told |= read(reader, run, tmp_path, instances(run, states), "running")
        wait_for(browser, f"document.querySelector('{card} .cell.done')")
        assert browser.execute_script("return document.activeElement.getAttribute('class')") == "strip"
        assert browser.execute_script(f"return document.querySelectorAll('{card} tbody tr.done').length") == 1
        assert browser.execute_script(f"return document.querySelector('{card} .chosen h4').innerText.slice(0, 9)") == (
            "Subtask 5"
        )
        browser.get_log("browser")


def test_every_state_is_shown_in_words_and_not_by_colour_alone(
    browser: Any, reader: RunReader, tmp_path: Path, screenshots: Path
) -> None:
    run = revenue_run(tmp_path)
    run.run("orders", "customers")
    run.decide("enriched")
    run.commit("enriched", 0)
    run.commit("enriched", 1, attempt=2)
    run.commit("enriched", 2, attempt=1001)
    states = {
        ("enriched", k): state
        for k, state in enumerate(
            [("success", 1), ("success", 2), ("success", 1), ("deferred", 1), ("up_for_retry", 2), ("scheduled", 0)]
        )
    }
    told = read(reader, run, tmp_path, instances(run, states), "success")
    with Served(told, []) as address:
        browser.get(address)
        deadline = time.monotonic() + 150
        labels: list[str] = []
        while not labels and time.monotonic() < deadline:
            labels = browser.execute_script(
                "return [...document.querySelectorAll('[data-region=enriched] .cell')].map((each) => each.ariaLabel)"
            )
        assert [label.partition(",")[0] for label in labels] == [
            "subtask 0: done",
            "subtask 1: done after a retry",
            "subtask 2: recomputed",
            "subtask 3: running",
            "subtask 4: waiting to be retried",
            "subtask 5: waiting",
        ]
        assert labels[2] == "subtask 2: recomputed, subpartitions [5, 6), 1.9 KiB"
        legend = browser.execute_script("return document.querySelector('[data-region=enriched] .legend').innerText")
        assert "1 done after a retry" in legend
        browser.save_screenshot(str(screenshots / "states.png"))
        browser.get_log("browser")


def test_markup_in_names_paths_and_reasons_is_shown_and_never_run(
    browser: Any, reader: RunReader, tmp_path: Path
) -> None:
    run = revenue_run(tmp_path)
    run.run()
    told = read(reader, run, tmp_path, instances(run, {}), "success")
    markup = "<img src=x onerror='window.hacked=1'>"
    region = told["jobs"][0]["regions"][0]
    region |= {"title": markup, "reason": markup, "vertices": [markup], "problems": [markup], "rule_told": markup}
    region["edges"][0]["path"] = markup
    told["jobs"][0]["job"] = markup
    with Served(told, []) as address:
        browser.get(address)
        deadline = time.monotonic() + 150
        shown = ""
        while markup not in shown and time.monotonic() < deadline:
            shown = browser.execute_script("return document.body.textContent")
        assert shown.count(markup) >= 6
        assert browser.execute_script("return document.querySelectorAll('img').length") == 0
        assert browser.execute_script("return window.hacked ?? null") is None


def test_a_running_subtask_shows_how_far_its_log_says_it_is(browser: Any, reader: RunReader, tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run("orders")
    run.decide("customers")
    told = read(reader, run, tmp_path, instances(run, {("customers", 0): ("deferred", 1)}), "running")
    with Served(told, [], log="customers.whole: 3 of 8 Spark tasks, stage 1 of 2, 12 s") as address:
        browser.get(address)
        deadline = time.monotonic() + 150
        shown = None
        while shown != "0 38 %" and time.monotonic() < deadline:
            shown = browser.execute_script(
                "return document.querySelector('[data-region=customers] .cell')?.textContent"
            )
        assert shown == "0 38 %"  # subtask 0, three of eight


@pytest.mark.parametrize(
    ("log", "waits"),
    [
        (
            "waiting for resources: 8 Spark tasks to run, and the cluster has at most 2 cores; 30 s so far",
            "8 Spark tasks to run, and the cluster has at most 2 cores; 30 s so far",
        ),
        (
            "waiting for a slot of spark: 0 of 0 slots in use: the cluster manager says: 0 executors run",
            "the cluster manager says: 0 executors run",
        ),
    ],
    ids=["on Spark", "for a slot"],
)
def test_a_subtask_that_waits_for_an_executor_says_so(
    browser: Any, reader: RunReader, tmp_path: Path, log: str, waits: str
) -> None:
    run = revenue_run(tmp_path)
    run.run("orders")
    run.decide("customers")
    told = read(reader, run, tmp_path, instances(run, {("customers", 0): ("deferred", 1)}), "running")
    with Served(told, [], log=log) as address:
        browser.get(address)
        shown = wait_for(browser, "document.querySelector('[data-region=customers] .problem')?.textContent")
        assert shown == f"1 subtask waiting for resources: {waits}"
        browser.get("about:blank")  # its page asks no server that has ended


def test_vertices_of_one_operation_fill_up_as_its_log_tells(
    browser: Any, reader: RunReader, tmp_path: Path, screenshots: Path
) -> None:
    run = revenue_run(tmp_path)
    run.run("orders")
    run.decide("customers")
    told = read(reader, run, tmp_path, instances(run, {("customers", 0): ("deferred", 1)}), "running")
    region = next(each for each in told["jobs"][0]["regions"] if each["name"] == "customers")
    edge = {"producer": "raw", "consumer": "customers", "input_name": "raw", "durable": False, "reason": "kept inside"}
    edge |= {"bytes": None, "rows": None}
    region |= {"declared": ["raw", "customers"], "vertices": ["raw", "customers"], "inside": [edge]}
    log = "customers.whole: 3 of 8 Spark tasks, stage 1 of 2, 12 s (raw 75 %, customers 0 %)"
    with Served(told, [], log=log) as address:
        browser.get(address)
        share = """(() => {
            const width = (name) => document.querySelector(`.box.inside .${name}`)?.getBoundingClientRect().width;
            return width('fill-progress') / width('fill-running');
        })()"""
        assert wait_for(browser, share) == pytest.approx(0.75, abs=0.01)
        assert "75 % of its Spark tasks are done" in browser.execute_script(
            "return document.querySelector('.box.inside').ariaLabel"
        )
        browser.save_screenshot(str(screenshots / "filling-up.png"))
        edge |= {"bytes": 2048, "rows": 30}
        region["subtasks"][0] |= {"seconds": 20.0, "attempt": 1}
        region["tasks"][0] |= {"state": "success"}
        assert wait_for(browser, "document.querySelector('.box.inside .fill-done')")
        assert any("inside Spark2.0 KiB30 rows" in each for each in texts(browser, ".edge-label"))
        edge |= {"is_estimate": True, "counted": "30 rows shuffled, about 2.0 KiB in Spark's own format"}
        titles = "[...document.querySelectorAll('.edge-label title')].map((each) => each.textContent)"
        assert wait_for(browser, f"{titles}.some((each) => each.includes('in Spark\\'s own format'))")
        assert any("inside Spark~2.0 KiB30 rows" in each for each in texts(browser, ".edge-label"))
        browser.get_log("browser")
