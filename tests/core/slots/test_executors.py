from __future__ import annotations

import pytest

from airflow_abs.core.slots.executors import Executors


@pytest.mark.parametrize(
    ("executors", "said"),
    [
        (Executors(0), "0 executors run"),
        (Executors(1, 1), "1 executor runs, 1 waits"),
        (
            Executors(0, 2, "its queue is full"),
            "0 executors run, 2 wait: its queue is full",
        ),
    ],
)
def test_what_a_manager_says_of_executors_reads_as_a_sentence(executors: Executors, said: str) -> None:
    assert str(executors) == said
