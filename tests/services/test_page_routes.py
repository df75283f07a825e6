"""What the page's routes give, to whom, and what they refuse."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from airflow_abs.demo.services import AirflowServices
from tests.plugins.pages import texts, wait_for
from tests.services.watched_run import WatchedRun

pytestmark = [pytest.mark.services, pytest.mark.spark]

ROUTES = ("plan", "streams", "api/run", "api/history", "api/streams")


def ask(airflow: AirflowServices, route: str, query: str, *, token: str | None = None) -> httpx.Response:
    """One request; of this Airflow, which makes everybody its admin, unless a token is given."""
    own = token or httpx.get(f"{airflow.url}/auth/token", trust_env=False).json()["access_token"]
    headers = {"Authorization": f"Bearer {own}"}
    return httpx.get(f"{airflow.url}/adaptive_spark/{route}?{query}", headers=headers, trust_env=False, timeout=120)


@pytest.mark.sample
@pytest.mark.parametrize("route", ROUTES)
def test_no_route_gives_anything_to_who_may_not_see_the_dag(route: str, finished: WatchedRun) -> None:
    airflow, known = finished.airflow, f"run_id={finished.run_id}"
    refusals = {
        "forged": (ask(airflow, route, f"dag_id=daily_revenue&{known}", token="forged"), 403),
        "no right": (ask(airflow, route, f"dag_id=secret&{known}"), 403),
        "no right, second of two": (ask(airflow, route, f"dag_id=daily_revenue&dag_id=secret&{known}"), 403),
        "unknown DAG": (ask(airflow, route, f"dag_id=nothing&{known}"), 404),
        "unknown run": (ask(airflow, route, "dag_id=daily_revenue&run_id=nothing"), 404),
        "all DAGs": (ask(airflow, route, f"dag_id=~&{known}"), 404),
        "no DAG": (ask(airflow, route, known), 404),
    }
    assert {name: answer.status_code for name, (answer, _) in refusals.items()} == {
        name: status for name, (_, status) in refusals.items()
    }
    for answer, _ in refusals.values():
        assert "subtask" not in answer.text
        assert "exchange" not in answer.text
    hidden_last = ask(airflow, route, f"dag_id=secret&dag_id=daily_revenue&{known}")
    assert hidden_last.status_code == 200
    assert "secret" not in hidden_last.text


def test_refusals_are_pages_for_people(browser: Any, finished: WatchedRun) -> None:
    browser.get(finished.airflow.url)
    wait_for(browser, "document.readyState === 'complete'")
    for query, title, detail in (
        ("dag_id=secret&run_id=x", "Not allowed (403)", "You may not see this DAG's runs."),
        ("dag_id=<b>x</b>&run_id=x", "Not found (404)", "There is no DAG '<b>x</b>'."),
    ):
        browser.get(f"{finished.airflow.url}/adaptive_spark/plan?{query}")
        assert texts(browser, "h1") == [title]
        assert detail in texts(browser, "main p")[0]
    browser.get_log("browser")  # the browser notes the two refusals themselves


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_written(method: str, finished: WatchedRun) -> None:
    for route in ROUTES:
        address = f"{finished.airflow.url}/adaptive_spark/{route}?dag_id=daily_revenue&run_id={finished.run_id}"
        assert httpx.request(method, address, trust_env=False, timeout=120).status_code == 405


def test_the_page_loads_nothing_from_elsewhere(finished: WatchedRun) -> None:
    answer = ask(finished.airflow, "plan", f"dag_id=daily_revenue&run_id={finished.run_id}")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert [part for part in answer.text.split('"') if part.startswith(("http:", "https:", "//"))] == [
        "http://www.w3.org/2000/svg"
    ]
    for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert unsafe not in answer.text
