"""What the tasks of a job make of their templates."""

from __future__ import annotations

from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.retry_policy import RetryAction

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files
from airflow_abs.core.errors import JobGraphError
from airflow_abs.operators.restart_policy import TransientErrorPolicy


def plan_of(path: str) -> Any:
    with DAG("d", schedule="@daily", start_date=pendulum.datetime(2026, 1, 1)) as dag:
        with AdaptiveSparkJob("j", exchange="/tmp/exchange"):
            AdaptiveSparkOperator(task_id="orders", source=Files(path))
    return dag.get_task("j.plan")


def refusal(path: str, context: dict[str, Any]) -> JobGraphError:
    with pytest.raises(JobGraphError) as caught:
        plan_of(path).render_template_fields(context)
    return caught.value


def test_a_date_that_the_run_does_not_have_is_said_once_with_what_to_pass() -> None:
    error = refusal("/lake/orders/ds={{ ds }}", {})
    assert str(error) == (
        "job 'j': a template cannot be rendered: 'ds' is undefined; the run has no logical date, so there is no ds, "
        "ts or data_interval_end: trigger the DAG with one, or give the template a value of its own, such as {{ "
        "params.day }}"
    )
    assert TransientErrorPolicy().evaluate(error, 1, 3).action is RetryAction.FAIL


def test_another_name_that_does_not_exist_is_said_once() -> None:
    error = refusal("/lake/{{ country.name }}", {"logical_date": pendulum.datetime(2026, 1, 1)})
    assert str(error) == "job 'j': a template cannot be rendered: 'country' is undefined"
