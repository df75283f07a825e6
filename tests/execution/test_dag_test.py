from __future__ import annotations

from typing import Any, cast

from airflow.sdk.execution_time.supervisor import InProcessSupervisorComms, set_supervisor_comms

from airflow_abs.execution.dag_test import is_dag_test


def test_a_dag_test_is_told_by_how_its_tasks_ask_airflow() -> None:
    assert not is_dag_test()
    with set_supervisor_comms(InProcessSupervisorComms(supervisor=cast("Any", None))):
        assert is_dag_test()
    with set_supervisor_comms(object()):
        assert not is_dag_test()
