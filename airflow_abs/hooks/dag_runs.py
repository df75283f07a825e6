"""Which runs of this Airflow are not over, from its database: for commands on an Airflow host, not for tasks."""

from __future__ import annotations


def unfinished_runs() -> set[tuple[str, str]]:
    """`(dag id, run id)` of every run that is queued or running now.

    Raises:
        RuntimeError: Airflow's database cannot be asked, or has no tables.
    """
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from sqlalchemy import select
    from sqlalchemy.exc import SQLAlchemyError

    unfinished = select(DagRun.dag_id, DagRun.run_id).where(DagRun.state.in_([DagRunState.QUEUED, DagRunState.RUNNING]))
    try:
        with create_session() as session:
            return {(dag_id, run_id) for dag_id, run_id in session.execute(unfinished)}
    except SQLAlchemyError as error:
        said = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        raise RuntimeError(
            f"Airflow's database cannot be queried for unfinished runs ({said}); expected one that `airflow db "
            "migrate` has set up: run this where Airflow is configured. Nothing is deleted without it"
        ) from error
