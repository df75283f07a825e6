"""What Airflow's database says about a DAG run: its state, its task instances, where its jobs keep their data.

Read only, in the api-server's own session; who may see it is checked before (see `app`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

PLAN_TASK = "PlanOperator"
ENDED = frozenset({"success", "failed"})


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One DAG run; `date` is its logical date, or when it could run first if it has none."""

    dag_id: str
    run_id: str
    state: str
    date: datetime
    start: datetime | None
    end: datetime | None

    @property
    def is_over(self) -> bool:
        return self.state in ENDED

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "state": self.state,
            "date": _iso(self.date),
            "start": _iso(self.start),
            "end": _iso(self.end),
        }


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """One task instance; `map_index` -1 if it is not mapped (yet). `first` is when the first of its tries began, if
    this is not that one."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    start: datetime | None
    end: datetime | None
    queued: datetime | None = None
    first: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "map_index": self.map_index,
            "state": self.state,
            "try": self.try_number,
            "start": _iso(self.start),
            "end": _iso(self.end),
        }


def dag_exists(session: Session, dag_id: str) -> bool:
    from airflow.models.dag import DagModel

    return session.get(DagModel, dag_id) is not None


def find_run(session: Session, dag_id: str, run_id: str) -> RunFacts | None:
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    found = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    return _run_facts(found) if found is not None else None


def runs_until(session: Session, run: RunFacts, count: int) -> list[RunFacts]:
    """The run and up to `count` - 1 of the same DAG before it, oldest first."""
    from airflow.models.dagrun import DagRun
    from sqlalchemy import func, select

    date = func.coalesce(DagRun.logical_date, DagRun.run_after)
    query = select(DagRun).where(DagRun.dag_id == run.dag_id, date <= run.date)
    found = session.scalars(query.order_by(date.desc(), DagRun.id.desc()).limit(count))
    return [_run_facts(each) for each in reversed(found.all())]


def find_tasks(session: Session, dag_id: str, run_id: str) -> dict[str, list[TaskFacts]]:
    """Task instances of the run by task, in the order of their map index: two queries for a few columns."""
    from airflow.models.taskinstance import TaskInstance as TI  # noqa: N817
    from airflow.models.taskinstancehistory import TaskInstanceHistory as Past
    from sqlalchemy import func, select

    earlier = select(Past.task_id, Past.map_index, func.min(Past.start_date)).where(
        Past.dag_id == dag_id, Past.run_id == run_id
    )
    first = {(row[0], row[1]): row[2] for row in session.execute(earlier.group_by(Past.task_id, Past.map_index))}
    columns = (TI.task_id, TI.map_index, TI.state, TI.try_number, TI.start_date, TI.end_date, TI.queued_dttm)
    rows = session.execute(
        select(*columns).where(TI.dag_id == dag_id, TI.run_id == run_id).order_by(TI.task_id, TI.map_index)
    )
    tasks: dict[str, list[TaskFacts]] = {}
    for row in rows:
        tasks.setdefault(row[0], []).append(TaskFacts(*row, first.get((row[0], row[1]))))
    return tasks


def find_jobs(session: Session, dag_id: str, run_ids: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """By run: its jobs (ids of their task groups) and the exchange of each, None as long as `plan` has not begun.

    Airflow keeps the rendered arguments of a task for its last runs only; for older ones the exchange of the DAG as it
    is now counts, if that has no template in it.
    """
    from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
    from airflow.models.taskinstance import TaskInstance as TI  # noqa: N817
    from sqlalchemy import select

    chosen = (TI.dag_id == dag_id, TI.run_id.in_(run_ids), TI.operator == PLAN_TASK)
    plans = session.execute(select(TI.run_id, TI.task_id, TI.start_date).where(*chosen).order_by(TI.task_id)).all()
    fields = (Rendered.run_id, Rendered.task_id, Rendered.rendered_fields)
    wanted = (Rendered.dag_id == dag_id, Rendered.run_id.in_(run_ids), Rendered.task_id.in_({row[1] for row in plans}))
    rendered = {(row[0], row[1]): row[2].get("exchange") for row in session.execute(select(*fields).where(*wanted))}
    begun = {(row[0], row[1]) for row in plans if row[2] is not None}
    declared = _declared_exchanges(session, dag_id) if begun - rendered.keys() else {}
    jobs: dict[str, dict[str, str | None]] = {run_id: {} for run_id in run_ids}
    for run_id, task_id, _ in plans:
        known = rendered.get((run_id, task_id))
        if known is None and (run_id, task_id) in begun:
            known = declared.get(task_id)
        jobs[run_id][task_id.rpartition(".")[0]] = known
    return jobs


def find_upstream(session: Session, dag_id: str) -> dict[str, list[str]]:
    """By task those that come directly before it, in the DAG as it is now."""
    upstream: dict[str, list[str]] = {}
    for value in _serialized_tasks(session, dag_id):
        for after in value.get("downstream_task_ids") or ():
            upstream.setdefault(str(after), []).append(str(value["task_id"]))
    return upstream


def _declared_exchanges(session: Session, dag_id: str) -> Mapping[str, str]:
    return {
        str(value["task_id"]): str(value["exchange"])
        for value in _serialized_tasks(session, dag_id)
        if value.get("exchange") and "{" not in str(value["exchange"])
    }


def _serialized_tasks(session: Session, dag_id: str) -> list[Mapping[str, Any]]:
    from airflow.models.serialized_dag import SerializedDagModel

    stored = SerializedDagModel.get(dag_id, session=session)
    tasks: Iterable[Mapping[str, Any]] = stored.data["dag"]["tasks"] if stored is not None and stored.data else ()
    return [task.get("__var", task) for task in tasks]


def _run_facts(run: Any) -> RunFacts:
    return RunFacts(
        run.dag_id, run.run_id, str(run.state), run.logical_date or run.run_after, run.start_date, run.end_date
    )


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None
