"""The page of a stream in a real browser, without Airflow: what it draws of a made-up day."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.core.stream_life.life import StreamLife
from tests.plugins.pages import keep_picture, set_screen, texts, wait_for
from tests.plugins.served_page import ServedStreams
from tests.plugins.streams.lived import NOW, OWNER, lived

Open = Callable[..., None]
CHARTS = [
    "rows in per second",
    "rows out per second",
    "batch",
    "lag behind the source",
    "rows of state",
    "bytes of state",
]


def told_of(life: StreamLife | None, **more: Any) -> dict[str, Any]:
    """What the page is told of a run with one stream."""
    stream = {
        "task_id": "by_minute",
        "map_index": -1,
        "state": "deferred",
        "try_number": 1,
        "checkpoint": "s3://mart/checkpoints/clicks_by_minute",
        "problem": None,
        "supervised": True,
        "is_this": True,
        "holder": {"owner": OWNER, "server": "spark:15002", "slots": 4, "until": NOW + 60},
        "life": None if life is None else asdict(life),
    }
    return {"dag_id": "clicks", "run_id": "run", "state": "success", "now": NOW, "streams": [{**stream, **more}]}


@pytest.fixture
def open_stream(browser: Any) -> Iterator[Open]:
    """Open the page of a stream: what it is told, the width of the window, the theme."""
    with ExitStack() as served:

        def start(told: dict[str, Any], width: int = 1280, theme: str = "light") -> None:
            address = served.enter_context(ServedStreams(told))
            set_screen(browser, width, theme)
            browser.get(address)
            wait_for(browser, "document.querySelector('#page')?.getAttribute('aria-busy') === 'false'")

        yield start


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_states_restarts_rescales_and_batches_are_drawn(
    theme: str, browser: Any, open_stream: Open, screenshots: Path
) -> None:
    life = lived()
    open_stream(told_of(life), theme=theme)
    assert texts(browser, ".stream h2") == ["by_minuteExecuting"]
    (known,) = texts(browser, ".stream .under")
    assert known.endswith("Spark server spark:15002 · started for 4 slots · 1 restart · 1 rescale")
    assert texts(browser, ".alarm") == [life.alarm]
    parts = browser.execute_script(
        "return [...document.querySelectorAll('.happening')].map((each) => "
        "[each.className.baseVal.split('state-')[1], each.x.baseVal.value + each.width.baseVal.value])"
    )
    assert [state for state, _ in parts] == [change.entered for change in life.changes]
    assert abs(parts[-1][1] - browser.execute_script("return document.querySelector('.times').clientWidth")) < 1
    assert [text[0] for text in texts(browser, ".happening-mark")] == ["↻", "⇅", "!", "!"]
    assert "restarted: failed in batch 120" in texts(browser, ".happening-mark title")[0]
    assert texts(browser, ".axis text")[:3] == ["0 s", "30 min", "1 h"]
    places = browser.execute_script(
        "return [...document.querySelectorAll('.axis text')].map((each) => each.x.baseVal[0].value)"
    )
    assert places == sorted(set(places))
    assert "false" not in texts(browser, "#page")[0]
    assert texts(browser, "figcaption strong") == CHARTS
    assert browser.execute_script("return document.querySelectorAll('figure:first-of-type .amount').length") == 60
    (lag,) = [text for text in texts(browser, "figcaption") if text.startswith("lag")]
    assert lag == "lag behind the source10 min 6 s, at most 10 min 6 s"  # 25 + 79 % 3 + 29 * 20 s is 606 s
    keep_picture(browser, screenshots / f"stream-{theme}.png", 1280)


def test_everything_that_is_remembered_is_in_tables(browser: Any, open_stream: Open) -> None:
    life = lived()
    open_stream(told_of(life))
    for summary in browser.find_elements("css selector", "summary"):
        browser.execute_script("arguments[0].click()", summary)
    rows = texts(browser, "#happened-0 tbody tr")
    assert len(rows) == len(life.changes) + len(life.notes)
    assert rows[0] == "2026-01-04 04:59:00ann@etl-1 has asked it to drain"
    assert len(texts(browser, "#batches-0 tbody tr")) == 80
    assert texts(browser, "#batches-0 tbody tr:first-child td")[0] == "279"


def test_at_the_width_of_a_phone_nothing_scrolls_sideways(browser: Any, open_stream: Open, screenshots: Path) -> None:
    open_stream(told_of(lived()), 390)
    for summary in browser.find_elements("css selector", "summary"):
        browser.execute_script("arguments[0].click()", summary)
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390
    keep_picture(browser, screenshots / "stream-phone.png", 390, 1600)


def test_what_is_wrong_is_said_in_words(browser: Any, open_stream: Open) -> None:
    later = {"owner": "clicks/later/by_minute", "server": "", "slots": 0, "until": NOW - 90}
    open_stream(told_of(None, supervised=False, is_this=False, holder=later))
    assert texts(browser, ".problem") == [
        "Another run has taken over this checkpoint, and what is shown here is that run's: clicks/later/by_minute.",
        "It has not been supervised since 2026-01-04 04:58:30 UTC (1 min 30 s); its query may still be running.",
        "Nothing has been recorded for it yet.",
    ]


def test_words_of_a_failure_are_never_parsed_as_html(browser: Any, open_stream: Open) -> None:
    told = told_of(lived())
    told["streams"][0]["life"]["changes"][-1]["reason"] = "<img src=x onerror=alert(1)>"
    open_stream(told)
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    assert "<img src=x" in texts(browser, ".timeline .told")[0]


def test_a_stream_of_a_bounded_source_says_that_it_ends(browser: Any, open_stream: Open) -> None:
    open_stream(told_of(replace(lived(), bound="endingOffsets='latest'")))
    (known,) = texts(browser, ".stream .under")
    assert known.endswith("runs as a batch, which ends: its source is bounded (endingOffsets='latest')")
