"""`LAST_COMPLETE_DAY` over the runs that Airflow's own timetables make, as Airflow's own environment renders it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, CronTriggerTimetable, MultipleCronTriggerTimetable
from airflow.sdk.definitions._internal.templater import Templater
from airflow.sdk.execution_time.context import MacrosAccessor
from airflow.timetables.base import DataInterval, TimeRestriction
from dateutil.relativedelta import relativedelta

from airflow_abs import LAST_COMPLETE_DAY
from airflow_abs.airflow_abilities import AirflowFailException, integrate_macros_plugins
from tests.dag_serialization import DagSerialization


def render(dag: Any, end: pendulum.DateTime | None) -> str:
    """In Airflow's context, as far as the macro reads it."""
    integrate_macros_plugins()  # as `get_template_context` does
    # the triggerer has the stored DAG, and an environment without it
    environment = dag.get_template_env() if isinstance(dag, DAG) else Templater().get_template_env()
    context: dict[str, Any] = {"dag": dag, "macros": MacrosAccessor()}
    if end is not None:
        context["data_interval_end"] = end
    return str(environment.from_string(LAST_COMPLETE_DAY).render(context))


def intervals(dag: DAG, count: int) -> list[DataInterval]:
    """Of the first runs of a backfill, as the scheduler makes them."""
    timetable = scheduled(dag).timetable
    restriction = TimeRestriction(earliest=dag.start_date, latest=None, catchup=True)
    found: list[DataInterval] = []
    while len(found) < count:
        last = found[-1] if found else None
        info = timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
        found.append(info.data_interval)
    return found


def scheduled(dag: DAG) -> Any:
    """The DAG as the scheduler and the triggerer know it."""
    return DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))


def days_from(first: str, count: int) -> list[str]:
    start = pendulum.parse(first, exact=True)
    return [start.add(days=number).isoformat() for number in range(count)]


@pytest.fixture(params=["no intervals", "intervals"], autouse=True)
def cron_data_intervals(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    has_intervals = str(request.param == "intervals")
    monkeypatch.setenv("AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS", has_intervals)


@pytest.mark.parametrize("schedule", ["@daily", "0 1 * * *", "30 2 * * *", "45 23 * * *"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Tokyo", "America/Los_Angeles", "Pacific/Kiritimati", "UTC"])
@pytest.mark.parametrize("change_of_clocks", [(2026, 3, 5), (2026, 3, 26), (2026, 10, 22), (2026, 10, 29)])
def test_a_daily_schedule_loads_every_day_of_its_time_zone_once(
    schedule: str, zone: str, change_of_clocks: tuple[int, int, int]
) -> None:
    dag = DAG("daily", schedule=schedule, start_date=pendulum.datetime(*change_of_clocks, tz=zone), catchup=True)
    found = intervals(dag, 8)
    first = found[0].end.in_timezone(zone).date().subtract(days=1)
    rendered = [render(dag, each.end) for each in found]
    assert rendered == days_from(first.isoformat(), 8)
    for day, interval in zip(rendered, found, strict=True):
        midnight = pendulum.parse(day, tz=zone).add(days=1)
        assert midnight <= interval.end < midnight.add(days=1)


def test_the_triggerer_renders_the_same_from_the_stored_dag() -> None:
    dag = DAG("daily", schedule="0 1 * * *", start_date=pendulum.datetime(2026, 10, 20, tz="Europe/Berlin"))
    for interval in intervals(dag, 8):
        assert render(scheduled(dag), interval.end) == render(dag, interval.end)


BERLIN = "Europe/Berlin"
AFTER_MIDNIGHT = pendulum.datetime(2026, 7, 1, 0, 30, tz=BERLIN).in_timezone("UTC")


@pytest.mark.parametrize(
    "schedule",
    [
        CronTriggerTimetable("30 0 * * *", timezone=BERLIN),
        MultipleCronTriggerTimetable("30 0 * * *", "0 12 * * *", timezone=BERLIN),
        AssetOrTimeSchedule(timetable=CronTriggerTimetable("30 0 * * *", timezone=BERLIN), assets=[Asset("x://a")]),
    ],
    ids=lambda schedule: type(schedule).__name__,
)
def test_the_schedules_time_zone_takes_precedence_over_that_of_the_start_date(schedule: Any) -> None:
    dag = DAG("daily", schedule=schedule, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"))
    assert render(dag, AFTER_MIDNIGHT) == "2026-06-30"
    assert render(scheduled(dag), AFTER_MIDNIGHT) == "2026-06-30"


@pytest.mark.parametrize("schedule", [timedelta(hours=6), None, "@once"])
def test_a_schedule_without_a_time_zone_has_the_dags(schedule: Any) -> None:
    dag = DAG("daily", schedule=schedule, start_date=pendulum.datetime(2026, 1, 1, tz=BERLIN))
    assert render(dag, AFTER_MIDNIGHT) == "2026-06-30"
    assert render(scheduled(dag), AFTER_MIDNIGHT) == "2026-06-30"


@pytest.mark.parametrize("schedule", [timedelta(days=1), timedelta(weeks=1), relativedelta(days=1)], ids=str)
def test_a_schedule_that_counts_hours_and_would_skip_a_day_is_refused(schedule: Any) -> None:
    """Started at midnight in summer, its runs end at 23:00 in winter: 29 March 2026 would follow on 27 March."""
    dag = DAG("daily", schedule=schedule, start_date=pendulum.datetime(2025, 7, 1, tz=BERLIN), catchup=True)
    for known in (dag, scheduled(dag)):
        with pytest.raises(AirflowFailException, match=r"its runs end at 00:00 of .*Europe/Berlin.*schedule='0 1 \* "):
            render(known, intervals(dag, 1)[0].end)


@pytest.mark.parametrize(
    ("schedule", "start"),
    [
        (timedelta(days=1), pendulum.datetime(2025, 7, 1, 2, tz=BERLIN)),
        (timedelta(days=1), pendulum.datetime(2026, 1, 1, tz=BERLIN)),
        (timedelta(days=1), pendulum.datetime(2025, 7, 1, tz="UTC")),
        (timedelta(days=1), pendulum.datetime(2025, 7, 1, tz="Asia/Tokyo")),
    ],
    ids=str,
)
def test_other_schedules_that_count_hours_load_every_day_once(schedule: Any, start: pendulum.DateTime) -> None:
    dag = DAG("daily", schedule=schedule, start_date=start, catchup=True)
    rendered = [render(dag, each.end) for each in intervals(dag, 600)]
    assert rendered == days_from(rendered[0], 600)


def test_a_run_without_a_logical_date_says_what_to_pass_and_is_not_retried() -> None:
    dag = DAG("daily", schedule="@daily", start_date=pendulum.datetime(2026, 1, 1, tz="UTC"))
    with pytest.raises(AirflowFailException, match=r"this run has no logical date.*--to-date 2026.*params\.day"):
        render(dag, None)
