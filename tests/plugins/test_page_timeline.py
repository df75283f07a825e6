"""Graph and timeline of a day of a shop, in a real browser, without Airflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from tests.plugins import shown_run
from tests.plugins.pages import keep_picture, set_screen, texts, wait_for
from tests.plugins.served_page import Served

Open = Callable[..., dict[str, Any]]


@pytest.fixture
def open_shop(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a run's page: its width, the theme, which subtask failed; gives what the page was told."""
    served: list[Served] = []

    def start(width: int = 1280, theme: str = "light", failed: int | None = None, hot: bool = False) -> dict[str, Any]:
        run = shown_run.shop_run(tmp_path, failed=failed, hot=hot)
        told = shown_run.told_of(tmp_path, run, failed)
        log = "customer 4711 has no address" if failed is not None else None
        cleared = shown_run.cleared(failed) if failed is not None else None
        served.append(Served(told, shown_run.thirty_days(told), log, cleared))
        address = served[-1].__enter__().partition("?")[0]
        set_screen(browser, width, theme)
        browser.get(f"{address}?dag_id=shop&run_id={run.folder.run_id}")
        wait_for(browser, "document.querySelectorAll('figure').length")
        return told

    yield start
    browser.get_log("browser")
    for each in served:
        each.__exit__()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_where_the_time_went_is_a_sentence_and_a_bar_without_gaps(
    theme: str, browser: Any, open_shop: Open, screenshots: Path
) -> None:
    timeline = open_shop(theme=theme)["timeline"]
    assert texts(browser, ".timeline .told") == [timeline["told"]]
    parts = browser.execute_script(
        "return [...document.querySelectorAll('.part rect')]"
        ".map(({ x, width }) => [x.baseVal.value, width.baseVal.value])"
    )
    assert len(parts) == len(timeline["path"])
    edges = [(left, left + width) for left, width in parts]
    assert all(abs(before[1] - after[0]) < 0.6 for before, after in pairwise(edges))
    assert abs(edges[-1][1] - browser.execute_script("return document.querySelector('.times').clientWidth")) < 1
    bands = texts(browser, ".times > svg > .band-title")
    assert bands == ["waited for", "plan", "items", "orders", "enriched", "by_region", "top_customers", "release"]
    browser.find_element("css selector", ".timeline summary").click()
    rows = texts(browser, ".timeline tbody tr")
    assert len(rows) == len(timeline["path"])
    assert (
        "waiting for a slot (enriched[5])"
        in rows[[row["label"] for row in timeline["path"]].index("Spark in enriched[5]") - 3]
    )
    browser.find_element("css selector", ".timeline summary").click()
    keep_picture(browser, screenshots / f"shop-{theme}.png", 1280, 1420)


def test_a_click_on_a_bar_chooses_its_subtask(browser: Any, open_shop: Open) -> None:
    timeline = open_shop()["timeline"]
    (spark,) = [each for each in timeline["path"] if each["label"] == "Spark in enriched[5]"]
    share = (spark["start"] + spark["end"]) / 2 / timeline["seconds"]
    browser.execute_script(
        """
        const drawing = document.querySelector('.times svg');
        const parts = [...drawing.querySelectorAll('.part rect')].map((each) => each.getBoundingClientRect());
        const titles = [...drawing.querySelectorAll('.band-title')];
        const band = titles.find((each) => each.textContent === 'enriched').getBoundingClientRect();
        const left = parts[0].left, whole = parts.at(-1).right - left;
        const at = { clientX: left + whole * arguments[0], clientY: band.top + 5 + 9 * 5 };
        drawing.dispatchEvent(new MouseEvent('click', { bubbles: true, ...at }));
        """,
        share,
    )
    assert texts(browser, "[data-region=enriched] .chosen h4")[0].startswith("Subtask 5 of")


def test_a_region_that_runs_inside_another_is_shown_so_and_every_edge_has_its_reason(
    browser: Any, open_shop: Open
) -> None:
    open_shop()
    assert texts(browser, ".box.inside text") == ["customers", "", "runs inside enriched", ""]
    labels = browser.execute_script(
        "return [...document.querySelectorAll('.edge-label')].map((each) => each.ariaLabel)"
    )
    (kept,) = [label for label in labels if label.startswith("customers → enriched")]
    assert kept.startswith("customers → enriched: kept inside Spark: writing 18.2 MiB would cost 2.6 s")
    (written,) = [label for label in labels if label.startswith("orders → enriched")]
    assert "hash(customer_id), 159.2 MiB, 16,691,192 rows. durable: writing 412.0 MiB costs 4.5 s" in written
    # Looked at by keyboard, the reason stands below the graph.
    browser.execute_script("document.querySelectorAll('.edge-label')[0].focus()")
    assert "durable:" in texts(browser, "div.looked")[0]
    browser.execute_script("document.querySelector('.box.inside').focus()")
    assert (
        texts(browser, "div.looked p")[0]
        == "customers runs inside enriched today: it has no task and no files of its own"
    )
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.execute_script("return document.activeElement.dataset.region") == "enriched"


def test_one_thing_has_one_number_and_rules_have_words(browser: Any, open_shop: Open) -> None:
    told = open_shop()["jobs"][0]["regions"]
    boxes = texts(browser, ".box.decided .read")
    for region, (box, reason) in zip(told, zip(boxes, texts(browser, ".reason"), strict=True), strict=True):
        assert box.removesuffix(" in") in reason, region["name"]
    shown = browser.execute_script(
        "return [...document.querySelectorAll('.chip')].map((each) => [each.title, each.textContent])"
    )
    assert ["rule sources", "as many subtasks as the source's files need at the target"] in shown
    # A vertex inside another one's operation has a box of its own, and counts.
    assert len(texts(browser, ".box")) == 6
    assert "6 of 6 vertices decided" in texts(browser, "#live")[0]
    facts = " ".join(texts(browser, "[data-region=orders] .facts div"))
    assert "on Spark6.6 s (predicted 9.9 s)" in facts
    assert "bytes out159.2 MiB (predicted 160.0 MiB)" in facts


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_at_the_width_of_a_phone_the_graph_is_whole_and_nothing_scrolls_sideways(
    theme: str, browser: Any, open_shop: Open, screenshots: Path
) -> None:
    open_shop(390, theme)
    for summary in browser.find_elements("css selector", "summary"):
        browser.execute_script("arguments[0].click()", summary)
    wait_for(browser, "document.querySelectorAll('table.listing').length === 5")
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390
    scrolling = """
        return [...document.querySelectorAll('main *')]
          .filter((each) => each.scrollHeight > each.clientHeight + 1 || each.scrollWidth > each.clientWidth + 1)
          .map((each) => getComputedStyle(each))
          .filter(({ overflowX, overflowY }) => [overflowX, overflowY].some((how) => ['auto', 'scroll'].includes(how)))
          .length
    """
    assert browser.execute_script(scrolling) == 0
    boxes = "[...document.querySelectorAll('.box')].map((each) => each.getBoundingClientRect())"
    assert browser.execute_script(
        f"return {boxes}.every((each) => each.left >= 0 && each.right <= 390 && each.bottom < 700)"
    )
    keep_picture(browser, screenshots / f"shop-phone-{theme}.png", 390)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_hot_key_is_told_on_its_card_with_what_to_do(
    theme: str, browser: Any, open_shop: Open, screenshots: Path
) -> None:
    told = open_shop(theme=theme, hot=True)["jobs"][0]["regions"][2]["hot_key"]
    (line, advice) = texts(browser, ".hot-key p")
    assert line.startswith(
        "Hot key: customer_id = 4711 has 93 % of the 100,000 rows of items sampled in subpartition 5,"
    )
    assert advice == f"What to do: {told['advice']}."
    assert "aggregate by customer_id and another column first" in advice
    assert texts(browser, "[data-region=enriched] .hot-key b") == ["customer_id = 4711"]
    box = browser.execute_script("return document.querySelector('[data-region=enriched]').getBoundingClientRect()")
    below = browser.execute_script("return scrollY")
    keep_picture(
        browser, screenshots / f"shop-hot-key-{theme}.png", 1280, round(box["height"]) + 24, box["y"] + below - 12
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_would_run_again_is_named_before_it_is_confirmed(
    theme: str, browser: Any, open_shop: Open, screenshots: Path
) -> None:
    open_shop(theme=theme, failed=3)
    browser.find_element("css selector", ".failure button.repair").click()
    wait_for(browser, "document.querySelector('dialog .go:not(:disabled)')")
    assert texts(browser, "dialog .go") == ["Run 8 task instances again"]
    assert texts(browser, "dialog li")[0] == "enriched.run[3]"
    assert browser.execute_script("return document.activeElement.type") == "checkbox"  # keys go to the dialog
    browser.save_screenshot(str(screenshots / f"shop-repair-{theme}.png"))


def test_who_may_not_clear_is_offered_nothing(browser: Any, open_shop: Open) -> None:
    open_shop()
    browser.find_element("css selector", "[data-region=orders] .strip").click()
    assert texts(browser, "[data-region=orders] .chosen a") == ["Log and task instance", "Details"]
    assert texts(browser, "button") == []


def test_a_failed_range_is_told_first_with_its_reason(browser: Any, open_shop: Open, screenshots: Path) -> None:
    open_shop(failed=3)
    assert texts(browser, ".failure h2") == ["customers + enriched: subtask 3 failed"]
    wait_for(browser, "document.querySelector('.failure .why')?.textContent.includes('customer 4711')")
    keep_picture(browser, screenshots / "shop-failed.png", 1280, 860)
