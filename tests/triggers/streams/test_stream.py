"""The trigger of a stream, without a server."""

from __future__ import annotations

from typing import Any

from airflow_abs.restart_strategy import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NeverRestart,
    RestartStrategy,
    strategy_from_json,
    strategy_to_json,
)
from airflow_abs.triggers.streams.stream import StreamTrigger

TASK: dict[str, Any] = {
    "conn_id": "spark_connect_default",
    "checkpoint": "/mart/checkpoint",
    "digest": "0123456789abcdef",
    "name": "by_minute 0123456789ab",
    "owner": "clicks/daily-1/by_minute",
    "conf": {},
    "ends": False,
    "restart": strategy_to_json(NeverRestart()),
    "desired_slots": 1,
    "sufficient_slots": 1,
    "resource_timeout": 300.0,
    "resource_stabilization": 10.0,
    "rescale": {"partitions_per_slot": 2, "cooldown": 30.0},
    "dag_id": "clicks",
    "task_id": "by_minute",
    "sink": "/mart/by_minute",
    "run_id": "daily-1",
    "bound": "",
    "source_conn_id": "kafka_default",
    "sink_conn_id": "",
}


def test_a_trigger_is_made_again_from_what_airflow_stores() -> None:
    path, values = StreamTrigger(**TASK).serialize()
    assert path == "airflow_abs.triggers.streams.stream.StreamTrigger"
    assert values == TASK
    assert StreamTrigger(**values).serialize() == (path, values)


def test_every_restart_strategy_travels_as_plain_values() -> None:
    kinds: list[RestartStrategy] = [
        ExponentialDelayRestart(attempts=None),
        FixedDelayRestart(2, 1.5),
        FailureRateRestart(4, 60.0, 2.0),
        NeverRestart(),
    ]
    assert [strategy_from_json(strategy_to_json(kind)) for kind in kinds] == kinds
