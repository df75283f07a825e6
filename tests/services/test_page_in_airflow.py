"""The tab "Adaptive plan" as people use it: real Airflow, real Spark, real browser."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest
from selenium.webdriver.common.keys import Keys

from airflow_abs.exchange.runs.replayed import replay_run
from tests.plugins.pages import texts, wait_for
from tests.services.airflow_pages import copy_run, enter_tab, open_page, open_tab, recorded
from tests.services.watched_run import StartRun, WatchedRun
from tests.waiting import wait_until

pytestmark = [pytest.mark.services, pytest.mark.spark]


@pytest.mark.sample
def test_the_tab_draws_the_graph_and_the_ranges_of_a_finished_run(
    browser: Any, finished: WatchedRun, folder: Path, screenshots: Path
) -> None:
    browser.set_window_size(1280, 1560)
    open_tab(browser, finished)
    view = recorded(folder, finished, "revenue")
    names = [region.name for region in view.regions]
    counts = [len(region.subtasks) for region in view.regions]
    assert names == ["orders", "customers", "enriched", "by_region"]
    assert sorted(texts(browser, ".box .vertex")) == sorted(names)
    assert sorted(texts(browser, ".box .fan-out")) == sorted(f"\N{MULTIPLICATION SIGN}{count}" for count in counts)
    assert sorted(texts(browser, ".edge-label .kind")) == ["broadcast", "hash", "hash"]
    assert sorted(texts(browser, ".edge-label .keys")) == ["customer_id", "region"]
    cells = [
        browser.execute_script(f"return document.querySelectorAll('[data-region={n}] .cell').length") for n in names
    ]
    assert cells == counts
    assert f"{sum(counts)} subtasks: {sum(counts)} done" in texts(browser, ".summary")[0]
    # Airflow's clock of every task and Spark's of every operation come together: nothing of the run is missing.
    (told,) = texts(browser, ".timeline .told")
    assert told.count("Airflow between tasks") + told.count("other") >= 1
    waited_for = texts(browser, ".timeline tbody tr")
    assert any("Spark in enriched[" in row for row in waited_for)
    assert any("plan" in row for row in waited_for)
    reasons = [text.replace("→", "->") for text in texts(browser, ".reason")]
    assert reasons == [region.decision.reason for region in view.regions if region.decision]
    hot = [chip for chip in texts(browser, ".chip.note") if "subpartition" in chip]
    parts = sum(subtask.hot_part is not None for region in view.regions for subtask in region.subtasks)
    assert parts > 1
    assert [chip.partition(": ")[2] for chip in hot] == [f"{parts} subtasks share it"]  # the hot customer is called out
    assert wait_for(browser, "document.querySelectorAll('figure').length") == 4
    assert browser.execute_script("return document.querySelectorAll('figure:first-of-type .past').length") == 3
    browser.switch_to.default_content()
    browser.save_screenshot(str(screenshots / "adaptive-plan.png"))


@pytest.mark.sample
def test_replay_gives_the_decisions_of_a_real_run(finished: WatchedRun, folder: Path) -> None:
    replayed = replay_run(recorded(folder, finished, "revenue"))
    assert [each.region for each in replayed] == ["orders", "customers", "enriched", "by_region"]
    assert [each.again for each in replayed] == [each.recorded for each in replayed]


def test_states_change_while_the_run_lives(browser: Any, start_run: StartRun, folder: Path, screenshots: Path) -> None:
    run = start_run("napping", 1)
    open_page(browser, run)
    # Before: nothing is planned, and that is said; then the graph grows without a reload.
    browser.execute_script("window.sameDocument = true")
    wait_for(browser, "document.querySelectorAll('.box').length === 3", seconds=300)
    assert "?" in texts(browser, ".box .fan-out")
    assert texts(browser, ".card.open .reason")[0].startswith("Not decided yet")
    wait_for(browser, "document.querySelector('[data-region=work] .cell.running')", seconds=300)
    browser.save_screenshot(str(screenshots / "adaptive-plan-live.png"))
    assert run.wait() == "success"
    wait_for(browser, "document.querySelector('.badge')?.textContent === 'success'")
    wait_for(browser, "document.querySelectorAll('.cell').length === document.querySelectorAll('.cell.done').length")
    assert "?" not in texts(browser, ".box .fan-out")
    assert browser.execute_script("return window.sameDocument") is True
    assert "3 of 3 vertices decided" in texts(browser, "#live")[0]  # told to screen readers
    view = recorded(folder, run, "job").region("work")
    waits = [subtask.waited for subtask in view.subtasks]
    assert all(waited is not None and 0 < waited < 600 for waited in waits)
    # Who ended it, worker or triggerer, makes no difference to the link.
    for index in range(len(view.subtasks)):
        path = f"/dags/napping/dagRuns/{run.run_id}/taskInstances/job.work.run/links"
        links = run.airflow.api.request("GET", path, params={"map_index": index})["extra_links"]
        assert links["Adaptive plan"] == f"{run.plan}?region=work&subtask={index}"


@pytest.fixture(scope="package")
def failed(start_run: StartRun, folder: Path) -> dict[str, WatchedRun]:
    """Two runs of the same fault side by side: noticed in the worker, and in the triggerer."""
    runs = {place: start_run(dag_id, 2) for place, dag_id in (("worker", "refusing"), ("triggerer", "refusing_late"))}

    def subtasks() -> list[str | None]:
        late = runs["triggerer"]
        states = late.airflow.api.task_instances(late.dag_id, late.run_id)
        return [each.state for each in states if each.task_id == "job.work.run" and each.map_index >= 0]

    wait_until(lambda: set(subtasks()) == {"deferred"}, seen=subtasks)
    (folder / "data" / "handed_over").touch()
    assert {run.wait() for run in runs.values()} == {"failed"}
    return runs


@pytest.mark.sample
@pytest.mark.parametrize("place", ["worker", "triggerer"])
def test_which_range_failed_why_and_how_big_is_there_when_the_tab_opens(
    place: str, browser: Any, failed: dict[str, WatchedRun], folder: Path, screenshots: Path
) -> None:
    run = failed[place]
    open_tab(browser, run)
    view = recorded(folder, run, "job").region("work")
    (lost,) = [subtask for subtask in view.subtasks if subtask.attempt is None]
    log = run.airflow.api.task_log(run.dag_id, run.run_id, "job.work.run", map_index=lost.index)
    assert ("the triggerer takes over" in log) is (place == "triggerer")
    (heading,) = texts(browser, ".failure h2")
    assert heading == f"work: subtask {lost.index} failed"
    assert f"subpartitions {lost.subpartitions}" in texts(browser, ".failure p")[0]
    wait_for(browser, "document.querySelector('.failure .why')?.textContent.includes('credit line')")
    assert "customer 13 has no credit line" in texts(browser, ".failure .why")[0]
    assert "?" in texts(browser, ".box .fan-out")  # what comes after it was never decided
    browser.switch_to.default_content()
    browser.save_screenshot(str(screenshots / f"adaptive-plan-failed-{place}.png"))
    enter_tab(browser)
    browser.find_element("css selector", ".failure .links a:last-of-type").click()
    browser.switch_to.default_content()
    wait_for(browser, f"location.pathname.endsWith('/tasks/job.work.run/mapped/{lost.index}')")


@pytest.mark.sample
def test_the_key_of_a_hot_subpartition_is_on_the_page_of_a_run_that_failed(
    browser: Any, failed: dict[str, WatchedRun], folder: Path
) -> None:
    """Found by the subtask that reads it or, should that have been done first, by `release`."""
    run = failed["worker"]
    found = recorded(folder, run, "job").region("work").hot_key
    assert found is not None
    assert found.key == "customer_id = 1"
    open_page(browser, run)
    (line, advice) = texts(browser, "[data-region=work] .hot-key p")
    assert line.startswith("Hot key: customer_id = 1 has ")
    assert f"sampled in subpartition {found.subpartition}, which holds " in line
    assert "aggregate by customer_id and another column first" in advice


def button(browser: Any, within: str) -> Any:
    return browser.find_element("css selector", f"{within} button.repair")


@pytest.mark.sample
def test_a_failed_range_is_repaired_from_the_page_and_nothing_else_runs_again(
    browser: Any, failed: dict[str, WatchedRun], folder: Path, days: tuple[date, ...], screenshots: Path
) -> None:
    """Also the other half of it: who may not clear is offered nothing, and refused if he asks all the same."""
    hidden = failed["triggerer"]
    open_page(browser, hidden)
    assert texts(browser, ".failure h2")  # everything else is there
    browser.find_element("css selector", "[data-region=work] .strip").click()
    assert texts(browser, "button.repair") == []
    refused = "return askToClear([arguments[0]], true, false).then(() => null, (error) => error.message)"
    assert browser.execute_script(refused, "job.work.run").startswith("Airflow refused the request (403)")
    browser.get_log("browser")  # the browser notes the refusal itself

    run = failed["worker"]
    before = recorded(folder, run, "job").region("work")
    (lost,) = [subtask.index for subtask in before.subtasks if subtask.attempt is None]
    (folder / "data" / "credit").touch()  # what was wrong is put right
    open_page(browser, run)
    button(browser, ".failure").click()
    wait_for(browser, "document.querySelector('dialog .go:not(:disabled)')")
    after = ["out.commit", "out.decide", "out.run", "release", f"work.run[{lost}]"]
    assert sorted(texts(browser, "dialog li")) == after
    assert texts(browser, "dialog .go") == ["Run 5 task instances again"]
    browser.save_screenshot(str(screenshots / "adaptive-plan-repair.png"))
    browser.find_element("css selector", "dialog input").click()
    wait_for(browser, "document.querySelectorAll('dialog li').length === 1")
    assert texts(browser, "dialog .go") == ["Run 1 task instance again"]
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert browser.execute_script("return document.querySelector('dialog')") is None
    assert run.airflow.api.run_state(run.dag_id, run.run_id) == "failed"  # nobody has confirmed anything yet

    button(browser, "[data-region=work] .chosen").click()
    wait_for(browser, "document.querySelector('dialog .go:not(:disabled)')")
    browser.find_element("css selector", "dialog .go").click()
    wait_for(browser, "document.querySelector('dialog') === null")
    assert run.wait() == "success"
    wait_for(browser, "document.querySelector('.badge').textContent === 'success'")
    labels = browser.execute_script(
        "return [...document.querySelectorAll('[data-region=work] .cell')].map((each) => each.ariaLabel)"
    )
    states = [label.partition(": ")[2].partition(",")[0] for label in labels]
    assert states == ["done after a retry" if index == lost else "done" for index in range(len(labels))]
    repaired = recorded(folder, run, "job").region("work")
    others = [(each, again) for each, again in zip(before.subtasks, repaired.subtasks, strict=True) if each.attempt]
    assert all(each == again for each, again in others)  # to the second on which they began
    tries = run.airflow.api.task_instances(run.dag_id, run.run_id)
    again = {(each.task_id, each.map_index) for each in tries if each.try_number > 1}
    assert {task for task, _ in again} <= {"job.work.run", "job.release"}
    assert {index for task, index in again if task == "job.work.run"} == {lost}
    read, written = (f"'{folder}/{where}/ds={days[2]}/*.parquet'" for where in ("data/orders", "mart/refusing"))
    columns = "order_id, customer_id, amount"
    differs = f"SELECT {columns} FROM {read} EXCEPT ALL SELECT {columns} FROM {written}"
    assert duckdb.sql(differs).fetchall() == []
    assert duckdb.sql(f"SELECT (SELECT count(*) FROM {read}) = (SELECT count(*) FROM {written})").fetchall() == [
        (True,)
    ]


def test_a_task_instance_links_to_its_own_subtask(browser: Any, finished: WatchedRun) -> None:
    path = f"/dags/{finished.dag_id}/dagRuns/{finished.run_id}/taskInstances/revenue.orders.run/links"
    links = finished.airflow.api.request("GET", path, params={"map_index": 1})["extra_links"]
    assert links["Adaptive plan"] == f"{finished.plan}?region=orders&subtask=1"
    open_tab(browser, finished, links["Adaptive plan"])
    wait_for(
        browser, "document.querySelector('[data-region=orders] .chosen h4')?.textContent.startsWith('Subtask 1 of')"
    )
    browser.find_element("css selector", "[data-region=orders] .chosen .links a").click()
    browser.switch_to.default_content()
    wait_for(browser, "location.pathname.endsWith('/tasks/revenue.orders.run/mapped/1')")


def test_the_page_follows_the_theme_around_it(browser: Any, finished: WatchedRun, screenshots: Path) -> None:
    open_tab(browser, finished)
    browser.switch_to.default_content()
    for theme, shade in (("dark", "20, 28, 43"), ("light", "255, 255, 255")):
        browser.execute_script(
            "const own = document.documentElement.classList; own.remove('dark', 'light'); own.add(arguments[0])",
            theme,
        )
        inside = "document.querySelector('iframe[title=\"Adaptive plan\"]').contentDocument"
        wait_for(browser, f"{inside}.documentElement.dataset.theme === '{theme}'")
        assert browser.execute_script(f"return getComputedStyle({inside}.body).backgroundColor") == f"rgb({shade})"
        browser.save_screenshot(str(screenshots / f"adaptive-plan-{theme}.png"))


def test_it_is_usable_by_keyboard_and_at_the_width_of_a_phone(
    browser: Any, finished: WatchedRun, screenshots: Path
) -> None:
    browser.set_window_size(500, 900)
    open_page(browser, finished)
    browser.execute_script("document.querySelector('[data-region=orders] .strip').focus()")
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert texts(browser, "[data-region=orders] .chosen h4")[0].startswith("Subtask 1 of")
    browser.switch_to.active_element.send_keys(Keys.END)
    last = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
    assert browser.execute_script(f"return {last}.getAttribute('aria-selected')") == "true"
    assert browser.execute_script(f"return {last}.getAttribute('aria-label')").startswith("subtask ")
    browser.execute_script("document.querySelector('[data-region=orders] summary').focus()")
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    cells = browser.execute_script("return document.querySelectorAll('[data-region=orders] .cell').length")
    # The browser tells the page of an opened table when it next has time.
    wait_for(browser, f"document.querySelectorAll('[data-region=orders] tbody tr').length === {cells}")
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    browser.save_screenshot(str(screenshots / "adaptive-plan-phone.png"))


def test_an_earlier_run_is_one_click_away(browser: Any, finished: WatchedRun) -> None:
    open_page(browser, finished)
    wait_for(browser, "document.querySelectorAll('figure').length === 4")
    browser.execute_script(
        "document.querySelector('figure .past:not(.current)').dispatchEvent(new MouseEvent('click'))"
    )
    wait_for(browser, f"location.search.includes('run_id=demo__') && !location.search.includes('{finished.run_id}')")


def test_a_run_whose_data_is_gone_says_what_is_missing(browser: Any, finished: WatchedRun, folder: Path) -> None:
    open_page(browser, copy_run(finished, "gone", days=2000))
    assert f"{folder}/exchange/daily_revenue/gone/revenue/plan.json" in texts(browser, ".missing p")[0]
    assert "no longer contains this run" in texts(browser, ".missing .hint")[0]
