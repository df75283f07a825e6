"""In front of every mapped task: how many subtasks, and what each of them reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_abs.core.slots.admission import Admission
from airflow_abs.operators.idle_regions import SkipsIdleRegions
from airflow_abs.operators.job_task import JobTask
from airflow_abs.operators.plan import PlanOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class DecideOperator(JobTask, SkipsIdleRegions):
    """Decides the fan-out of one region from the bytes that its producers reported.

    Light: it loads neither pyspark nor grpc. Returns the keyword arguments of each mapped subtask. If the region runs
    inside another, it skips `run`, and the tasks of such regions behind it that now have nothing to wait for.

    Args:
        region: name of the region.
        producers: task id of the mapped `run` task by producer region, as declared.
        reports: the same of all regions before it, near and far: on a day that is fused it may read from further up.
        admission: what bounds how many of its subtasks run at once.
        table_kinds: of the tables that the job reads, see `airflow_abs.tables.kinds`.
        declarations: as in `JobPlan.check_declared`.
    """

    ui_color = "#fef7e0"

    def __init__(
        self,
        *,
        region: str,
        producers: Mapping[str, str],
        reports: Mapping[str, str] | None = None,
        admission: Admission = Admission.BOUND,
        table_kinds: Collection[str] = (),
        declarations: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"task_display_name": f"decide {region}", "doc_md": _describe(region, producers), **kwargs})
        self.region = region
        self.reports = reports if reports is not None else producers
        self.admission = admission
        self.table_kinds = tuple(table_kinds)
        self.declarations = dict(declarations or {})

    def execute(self, context: Context) -> list[dict[str, Any]]:
        from airflow_abs.exchange.records.run_records import RunRecords
        from airflow_abs.execution.decide import decide

        def read(region: str) -> list[dict[str, Any]]:
            return pull_reports(context, self.reports[region])

        records = RunRecords(self.folder(context))
        records.plan.check_declared(self.region, self.declarations)
        subtasks = decide(records, self.region, read, self.admission, self.table_kinds)
        into, plan = records.plan.fused, self._find_plan()
        if self.region in into and plan is not None:
            self.skip_idle(context, plan.graph, plan.tasks_of_regions, into, subtasks, ended=self.reports)
        return subtasks

    def _find_plan(self) -> PlanOperator | None:
        return next((task for task in self.upstream_list if isinstance(task, PlanOperator)), None)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> NoReturn:
        """A trigger ends a decision itself; a worker is woken only to raise what went wrong."""
        from airflow_abs.execution.task_end import error_from_json

        raise error_from_json(event["error"])


def pull_reports(context: Context, task_id: str) -> list[dict[str, Any]]:
    """What all subtasks of a mapped task pushed; a single one comes without its list."""
    pulled = context["ti"].xcom_pull(task_ids=task_id)
    if pulled is None:
        return []
    return [pulled] if isinstance(pulled, dict) else list(pulled)


def _describe(region: str, producers: Mapping[str, str]) -> str:
    """Documentation of the task in the UI."""
    before = "the bytes that " + ", ".join(f"`{task_id}`" for task_id in producers.values()) + " reported"
    found = "and any files that it reads" if producers else "the files that it reads, as they are on the day"
    rests_on = f"{before} {found}" if producers else found
    return (
        f"Decides how many subtasks **{region}** gets, and which range each of them reads, from {rests_on}.\n\n"
        "The fewest consecutive ranges that keep `target_bytes` each, within `min_parallelism` and `max_parallelism`; "
        "cut to about equal bytes. The reason and every bound that changed the number are in this task's log, in "
        "`airflow-abs explain`, and on the run's tab *Adaptive plan*."
    )
