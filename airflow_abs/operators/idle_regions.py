"""Skip the tasks of regions that run inside others: each would cost a process, and be a hop on the way to the next."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from airflow_abs.airflow_abilities import SkipMixin
from airflow_abs.core.graph.joining import find_idle
from airflow_abs.operators.ordering import TOLERANT

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_abs.core.graph.job_graph import JobGraph


class SkipsIdleRegions(SkipMixin):
    """A task after which regions may have nothing to do, and nothing to wait for any more."""

    def skip_idle(
        self,
        context: Context,
        graph: JobGraph,
        tasks_of_regions: Mapping[str, Collection[str]],
        into: Mapping[str, str],
        returned: Any,
        ended: Collection[str] = (),
    ) -> None:
        """Skip their tasks, if there are any. Airflow is told by an exception, so what `execute` would return is pushed
        before.

        Args:
            graph: as declared.
            tasks_of_regions: ids of `decide` and `run`, by region.
            into, ended: as in `find_idle`.
            returned: what `execute` would return.
        """
        dag: Any = self.dag  # type: ignore[attr-defined]
        tasks = {name: [dag.get_task(task_id) for task_id in ids] for name, ids in tasks_of_regions.items()}
        tolerant = {name for name, own in tasks.items() if all(task.trigger_rule == TOLERANT for task in own)}
        idle = find_idle(graph, into, tolerant, ended)
        skipped = [task for name in idle for task in tasks[name] if task.task_id != self.task_id]  # type: ignore[attr-defined]
        if skipped:
            self.log.info("skipping the tasks of %s: nothing to do, and nothing to wait for", ", ".join(idle))
            if self.do_xcom_push:  # type: ignore[attr-defined]
                context["ti"].xcom_push(key="return_value", value=returned)
            self.skip(context["ti"], skipped)
