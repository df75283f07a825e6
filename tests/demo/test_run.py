from __future__ import annotations

from airflow_abs.demo.airflow_api import SubtaskState
from airflow_abs.demo.run import describe_progress


def state(task_id: str, map_index: int, name: str | None) -> SubtaskState:
    return SubtaskState(task_id, map_index, name, 1, None, None)


def test_progress_counts_what_is_done_and_names_what_is_under_way() -> None:
    states = [
        state("revenue.plan", -1, "success"),
        state("revenue.orders.run", 0, "running"),
        state("revenue.orders.run", 1, "deferred"),
        state("revenue.orders.run", 2, "running"),
        state("revenue.customers.decide", -1, "queued"),
        state("revenue.release", -1, None),
    ]
    assert describe_progress(states) == (
        "1/6 tasks; now revenue.customers.decide 1 queued; revenue.orders.run 1 deferred, 2 running"
    )


def test_progress_of_a_run_that_has_not_begun() -> None:
    assert describe_progress([state("revenue.plan", -1, None)]) == "0/1 tasks"
