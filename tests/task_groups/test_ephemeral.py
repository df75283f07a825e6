"""A job with a Spark server per run: its tasks, and what Airflow clears and runs together."""

from __future__ import annotations

import json
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Ephemeral, Files, Table
from airflow_abs.airflow_abilities import START_IN_TRIGGERER, has
from airflow_abs.core.errors import InvalidValueError
from tests.gathered import job_arguments


def job(**options: Any) -> DAG:
    with DAG("daily", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")) as made:
        with AdaptiveSparkJob("revenue", **job_arguments({"exchange": "/x", "spark": Ephemeral("cluster"), **options})):
            orders = AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"))
            AdaptiveSparkOperator(task_id="total", inputs={"orders": orders.hash("day")}, sink=Files("/mart/total"))
    return made


def stored(dag: DAG) -> Any:
    from tests.dag_serialization import DagSerialization

    return DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))


def test_whatever_talks_to_spark_waits_for_the_server_and_all_of_it_is_before_its_end() -> None:
    dag = job()
    start, stop = dag.get_task("revenue.start_server"), dag.get_task("revenue.stop_server")
    assert start.is_setup
    assert stop.is_teardown
    talking = {"revenue.plan", "revenue.orders.run", "revenue.total.run"}
    assert start.downstream_task_ids == talking | {"revenue.stop_server"}
    decided = {"revenue.orders.decide", "revenue.total.decide"}
    assert stop.upstream_task_ids == talking | decided | {"revenue.total.commit", "revenue.start_server"}
    dag.validate_setup_teardown()  # as Airflow does when it reads the file
    # No teardown of the setup: it comes also when that has failed.
    release = dag.get_task("revenue.release")
    assert release.is_teardown
    assert release.upstream_task_ids == talking | decided | {"revenue.total.commit", "revenue.stop_server"}
    assert "revenue.stop_server" not in release.task_ids


def test_a_publication_by_sparks_statements_waits_for_the_server_and_brings_it_along() -> None:
    with DAG("daily", schedule=None) as dag, AdaptiveSparkJob("revenue", exchange="/x", spark=Ephemeral("cluster")):
        AdaptiveSparkOperator(task_id="total", source=Files("/lake/orders"), sink=Table("mart.total"))
    assert "revenue.total.commit" in dag.get_task("revenue.start_server").downstream_task_ids
    dag.validate_setup_teardown()
    cleared = stored(dag).partial_subset(["revenue.total.commit"], include_downstream=False, include_upstream=False)
    assert sorted(cleared.task_dict) == ["revenue.start_server", "revenue.stop_server", "revenue.total.commit"]


def test_a_subtask_that_is_cleared_alone_brings_the_server_along() -> None:
    cleared = stored(job()).partial_subset(["revenue.total.run"], include_downstream=False, include_upstream=False)
    assert sorted(cleared.task_dict) == ["revenue.start_server", "revenue.stop_server", "revenue.total.run"]


def test_the_server_that_is_cleared_alone_brings_its_end_along() -> None:
    cleared = stored(job()).partial_subset(["revenue.start_server"], include_downstream=False, include_upstream=False)
    assert sorted(cleared.task_dict) == ["revenue.start_server", "revenue.stop_server"]


NEEDS_START = pytest.mark.skipif(not has(START_IN_TRIGGERER), reason=START_IN_TRIGGERER.lack)


@pytest.mark.parametrize("start_from_trigger", [False, pytest.param(True, marks=NEEDS_START)])
def test_every_task_knows_that_the_server_is_the_runs_own(start_from_trigger: bool) -> None:
    dag = job(start_from_trigger=start_from_trigger)
    run = dag.get_task("revenue.orders.run")
    assert run.partial_kwargs["ephemeral"] is True
    assert all(dag.get_task(f"revenue.{name}").ephemeral for name in ("plan", "release", "start_server", "stop_server"))
    if start_from_trigger:
        assert run.start_trigger_args.trigger_kwargs["ephemeral"] is True


def test_what_comes_before_and_after_the_job_does_not_see_the_server() -> None:
    from airflow.providers.standard.operators.empty import EmptyOperator

    dag = job()
    with dag:
        EmptyOperator(task_id="before") >> dag.task_group.children["revenue"] >> EmptyOperator(task_id="after")
    assert dag.get_task("before").downstream_task_ids == {"revenue.start_server"}
    assert dag.get_task("after").upstream_task_ids == {"revenue.total.commit"}


def test_without_it_there_is_no_such_task() -> None:
    dag = job(spark=None)
    assert not [name for name in dag.task_ids if name.endswith("_server")]
    assert dag.get_task("revenue.plan").ephemeral is False


def test_something_else_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"spark is 'yarn'; expected Ephemeral\(...\)"):
        job(spark="yarn")
