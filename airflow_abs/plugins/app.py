"""The routes of the pages: two HTML pages and three JSON documents, each only for who may see the DAG.

No `from __future__ import annotations` here: FastAPI reads the routes' annotations, which are local to `build_app`.
"""

import logging
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse

from airflow_abs.plugins.page_text import error_page, plan_page, stream_page

log = logging.getLogger(__name__)

HISTORY = 30


def build_app() -> FastAPI:
    """The application; imports of Airflow's internals happen here, so at the first request."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
    from airflow.api_fastapi.common.db.common import SessionDep
    from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
    from airflow.models.dag import DagModel

    from airflow_abs.hooks.storage import open_path
    from airflow_abs.plugins import airflow_runs
    from airflow_abs.plugins.run_reader import RunReader
    from airflow_abs.plugins.streams.airflow_streams import find_streams
    from airflow_abs.plugins.streams.stream_reader import StreamReader

    app = FastAPI(title="Adaptive plan", docs_url=None, redoc_url=None, openapi_url=None)
    reader = RunReader(open_path)
    allowed = [
        Depends(requires_access_dag("GET", DagAccessEntity.RUN)),
        Depends(requires_access_dag("GET", DagAccessEntity.TASK_INSTANCE)),
    ]

    # reasons of states are what stands in the log: Spark's words may quote rows
    allowed_log = [*allowed, Depends(requires_access_dag("GET", DagAccessEntity.TASK_LOGS))]
    streams = StreamReader(open_path)

    def find_run(request: Request, session: SessionDep) -> airflow_runs.RunFacts:
        """The run that is asked for; its ids are read exactly as the checks before read them."""
        dag_id, run_id = (request.query_params.get(name) or "" for name in ("dag_id", "run_id"))
        if not airflow_runs.dag_exists(session, dag_id):
            raise HTTPException(404, f"There is no DAG {dag_id!r}.")
        run = airflow_runs.find_run(session, dag_id, run_id)
        if run is None:
            raise HTTPException(404, f"DAG {dag_id!r} has no run {run_id!r}.")
        return run

    run_dependency = Annotated[airflow_runs.RunFacts, Depends(find_run)]

    def may_clear(run: run_dependency, user: GetUserDep) -> bool:
        """Whether to offer it; Airflow's API, which clears, asks the same again."""
        details = DagDetails(id=run.dag_id, team_name=DagModel.get_team_name(run.dag_id))
        return get_auth_manager().is_authorized_dag(
            method="PUT", access_entity=DagAccessEntity.TASK_INSTANCE, details=details, user=user
        )

    @app.get("/plan", dependencies=allowed, response_class=HTMLResponse)
    def plan(run: run_dependency, session: SessionDep) -> HTMLResponse:
        """Of a run that has streams and no jobs, the streams."""
        has_jobs = bool(airflow_runs.find_jobs(session, run.dag_id, [run.run_id])[run.run_id])
        return stream_page() if not has_jobs and find_streams(session, run.dag_id, run.run_id) else plan_page()

    @app.get("/streams", dependencies=allowed_log, response_class=HTMLResponse)
    def show_streams(run: run_dependency) -> HTMLResponse:
        return stream_page()

    @app.get("/api/streams", dependencies=allowed_log)
    def read_streams(run: run_dependency, session: SessionDep) -> JSONResponse:
        return _uncached(streams.read_run(run, find_streams(session, run.dag_id, run.run_id)))

    @app.get("/api/run", dependencies=allowed)
    def read_run(
        run: run_dependency, session: SessionDep, clearable: Annotated[bool, Depends(may_clear)]
    ) -> JSONResponse:
        tasks = airflow_runs.find_tasks(session, run.dag_id, run.run_id)
        jobs = airflow_runs.find_jobs(session, run.dag_id, [run.run_id])[run.run_id]
        upstream = airflow_runs.find_upstream(session, run.dag_id)
        return _uncached({**reader.read_run(run, jobs, tasks, upstream), "may_clear": clearable})

    @app.get("/api/history", dependencies=allowed)
    def read_history(run: run_dependency, session: SessionDep) -> JSONResponse:
        runs = airflow_runs.runs_until(session, run, HISTORY)
        jobs = airflow_runs.find_jobs(session, run.dag_id, [each.run_id for each in runs])
        return _uncached({"dag_id": run.dag_id, "runs": reader.read_history(runs, jobs)})

    app.add_exception_handler(HTTPException, _refuse)  # type: ignore[arg-type]
    return app


def _uncached(told: dict[str, Any]) -> JSONResponse:
    return JSONResponse(told, headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})


def _refuse(request: Request, error: HTTPException) -> Any:
    """A page for people, JSON for the page's own requests."""
    if request.url.path.endswith(("/plan", "/streams")) and "/api/" not in request.url.path:
        return error_page(error.status_code, str(error.detail))
    return JSONResponse({"detail": error.detail}, error.status_code)
