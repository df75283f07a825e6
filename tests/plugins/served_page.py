"""The page over a made-up run, at a port of its own: what tests in a browser look at without Airflow."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_abs.plugins.airflow_runs import RunFacts, TaskFacts
from airflow_abs.plugins.page_text import plan_page, stream_page
from airflow_abs.plugins.run_reader import RunReader
from airflow_abs.spark.server.free_ports import choose_free_ports
from tests.recorded_runs import RecordedRun

START = datetime(2026, 1, 4, 1, 0, tzinfo=UTC)


def facts(state: str = "running") -> RunFacts:
    return RunFacts("chain", "run", state, START, START, None if state == "running" else START + timedelta(minutes=5))


def instances(
    run: RecordedRun, states: dict[tuple[str, int], tuple[str, int]] | None = None
) -> dict[str, list[TaskFacts]]:
    """Task instances of all decided regions; `success` on the first try unless `states` says otherwise."""
    known = states or {}
    found = {}
    for region, stored in run.stored.items():
        found[f"{run.folder.job}.{region}.run"] = [
            TaskFacts(f"{run.folder.job}.{region}.run", k, state, number, START, START + timedelta(seconds=k + 1))
            for k in range(stored.decision.parallelism)
            for state, number in [known.get((region, k), ("success", 1))]
        ]
    return found


class _Server:
    """An application at a port of its own."""

    def __init__(self, app: Any, path: str) -> None:
        import uvicorn

        (self.port,) = choose_free_ports(1)
        self.path = path
        self.server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=self.port, log_level="error"))
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        deadline = time.monotonic() + 150
        while not self.server.started:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return f"http://127.0.0.1:{self.port}/adaptive_spark/{self.path}"

    def __exit__(self, *error: object) -> None:
        self.server.should_exit = True
        self.thread.join(10)


class Served(_Server):
    """The page and the two documents."""

    def __init__(
        self, told: dict[str, Any], history: list[Any], log: str | None = None, cleared: list[Any] | None = None
    ) -> None:
        """`log` and `cleared` are what Airflow's API would answer: the text of an error, and task instances."""
        from fastapi import FastAPI
        from fastapi.responses import JSONResponse

        app = FastAPI()
        app.get("/adaptive_spark/plan")(plan_page)
        app.get("/adaptive_spark/api/run")(lambda: JSONResponse(told))
        app.get("/adaptive_spark/api/history")(lambda: JSONResponse({"dag_id": told["dag_id"], "runs": history}))
        if log is not None:
            content = {"content": [{"event": "began"}, {"event": log, "level": "error"}]}
            app.get("/api/v2/dags/{rest:path}")(lambda: JSONResponse(content))
        if cleared is not None:
            app.post("/api/v2/dags/{rest:path}")(lambda: JSONResponse({"task_instances": cleared}))
        super().__init__(app, "plan?dag_id=chain&run_id=run")


class ServedStreams(_Server):
    """The page of the streams of a run and its document."""

    def __init__(self, told: dict[str, Any]) -> None:
        from fastapi import FastAPI
        from fastapi.responses import JSONResponse

        app = FastAPI()
        app.get("/adaptive_spark/streams")(stream_page)
        app.get("/adaptive_spark/api/streams")(lambda: JSONResponse(told))
        super().__init__(app, "streams?dag_id=clicks&run_id=run")


def read(
    reader: RunReader, run: RecordedRun, root: Path, tasks: dict[str, list[TaskFacts]], state: str
) -> dict[str, Any]:
    """What the page is told of the run."""
    known = RunFacts(run.folder.dag_id, run.folder.run_id, state, START, START, START)
    return {**reader.read_run(known, {run.folder.job: str(root)}, tasks, {}), **facts(state).to_json()}
