"""What Airflow's database says about the streams of a DAG run: their task instances, and where their checkpoints are.

Read only, in the api-server's own session; who may see it is checked before (see `app`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

STREAM_TASK = "AdaptiveSparkStream"


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """One task instance of a stream; `map_index` -1 if it is not mapped. `checkpoint` is None until a worker has begun
    it, and when Airflow has forgotten its arguments."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    checkpoint: str | None


def find_streams(session: Session, dag_id: str, run_id: str) -> list[StreamFacts]:
    """In the order of their tasks and indexes.

    Airflow keeps the rendered arguments of a task for its last runs only.
    """
    from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
    from airflow.models.taskinstance import TaskInstance as TI  # noqa: N817
    from sqlalchemy import select

    chosen = (TI.dag_id == dag_id, TI.run_id == run_id, TI.operator == STREAM_TASK)
    columns = (TI.task_id, TI.map_index, TI.state, TI.try_number)
    rows = session.execute(select(*columns).where(*chosen).order_by(TI.task_id, TI.map_index)).all()
    tasks = {row[0] for row in rows}
    wanted = (Rendered.dag_id == dag_id, Rendered.run_id == run_id, Rendered.task_id.in_(tasks))
    fields = (Rendered.task_id, Rendered.map_index, Rendered.rendered_fields)
    rendered = {(row[0], row[1]): row[2].get("checkpoint") for row in session.execute(select(*fields).where(*wanted))}
    return [StreamFacts(row[0], row[1], row[2], row[3], rendered.get((row[0], row[1]))) for row in rows]
