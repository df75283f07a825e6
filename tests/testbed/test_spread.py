"""Where Spark's work was done, from what its pages say."""

from __future__ import annotations

from typing import Any

from testbed.spread import WorkerTasks, lines_of_spread, spread_of


def worker(name: str, page: str, state: str = "ALIVE") -> dict[str, Any]:
    return {"id": name, "webuiaddress": f"http://{page}", "cores": 1, "state": state}


def executor(page: str, tasks: int, milliseconds: int) -> dict[str, Any]:
    logs = {"stdout": f"http://{page}/logPage/?appId=app-1&executorId=0&logType=stdout"} if page else {}
    return {"executorLogs": logs, "totalTasks": tasks, "totalDuration": milliseconds}


def test_executors_count_at_the_worker_whose_page_has_their_log() -> None:
    master = {"workers": [worker("w2", "h:2"), worker("w1", "h:1"), worker("w3", "h:3"), worker("w0", "h:1", "DEAD")]}
    found = spread_of(
        master, [executor("", 0, 9), executor("h:1", 3, 1500), executor("h:2", 1, 10), executor("h:1", 2, 0)]
    )
    assert found == [WorkerTasks("w1", 1, 5, 1.5), WorkerTasks("w2", 1, 1, 0.01), WorkerTasks("w3", 1, 0, 0.0)]


def test_each_worker_is_a_line() -> None:
    spread = [WorkerTasks("worker-1", 1, 41, 12.34), WorkerTasks("worker-2", 4, 0, 0.0)]
    assert lines_of_spread(spread) == [
        "  worker-1: 41 Spark tasks, 12.3 s on 1 core",
        "  worker-2: 0 Spark tasks, 0.0 s on 4 cores",
    ]
