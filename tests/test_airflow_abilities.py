"""What an Airflow of a minor has, and where its names are."""

from __future__ import annotations

import pytest

from airflow_abs import airflow_abilities
from airflow_abs.airflow_abilities import (
    ABILITIES,
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
