"""What an Airflow of a minor has, and where its names are."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions, airflow_abilities
from airflow_abs.airflow_abilities import (
    ABILITIES,
    START_IN_TRIGGERER,
    THREADS_OF_TRIGGERERS,
    Ability,
    airflow_version,
    core_timetable,
    has,
)


@pytest.mark.parametrize(
    ("version", "lacking"),
    [
        ("3.1.8", set(ABILITIES)),
        ("3.2.2", set(ABILITIES) - {THREADS_OF_TRIGGERERS}),
        ("3.3.0", set()),
        ("3.10.0rc1", set()),
        ("4.0.0", set()),
    ],
)
def test_a_minor_lacks_what_came_after_it(version: str, lacking: set[Ability], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_abilities, "airflow_version", lambda: version)
    assert {each for each in ABILITIES if not has(each)} == lacking


@pytest.mark.parametrize("name", airflow_abilities._PLACES)
def test_every_name_that_has_moved_is_found(name: str) -> None:
    assert getattr(airflow_abilities, name) is not None


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        airflow_abilities.__getattr__("other")


def test_the_version_is_that_of_the_airflow_that_runs() -> None:
    from importlib.metadata import version

    assert airflow_version() == version("apache-airflow")


def test_a_declared_timetable_is_asked_for_the_interval_of_a_date() -> None:
    import pendulum
    from airflow.sdk import DAG

    with DAG("d", schedule="@daily", start_date=pendulum.datetime(2026, 1, 1, tz="UTC")) as dag:
        pass
    date = pendulum.datetime(2026, 1, 2, tz="UTC")
    interval = core_timetable(dag.timetable).infer_manual_data_interval(run_after=date)
    assert interval.start <= interval.end <= date


def test_metrics_are_taken() -> None:
    airflow_abilities.stats().incr("adaptive_spark.test", tags={})


def job_that_starts_in_the_triggerer() -> Any:
    import pendulum
    from airflow.sdk import DAG

    options = JobOptions(start_from_trigger=True)
    with DAG("daily", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")) as dag:
        with AdaptiveSparkJob("revenue", exchange="/x", options=options):
            AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"), pool="spark")
    return dag


def test_where_airflow_cannot_start_in_the_triggerer_plan_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what has no effect with it has one there."""
    monkeypatch.setattr("airflow_abs.task_groups.rendering.has", lambda ability: ability is not START_IN_TRIGGERER)
    dag = job_that_starts_in_the_triggerer()
    assert dag.get_task("revenue.plan").ignored_start
    assert not dag.get_task("revenue.orders.decide").start_from_trigger
    assert not dag.get_task("revenue.orders.run").start_from_trigger
