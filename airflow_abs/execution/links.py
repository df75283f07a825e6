"""From a task instance to the page that shows the whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PLAN_ROUTE = "adaptive-plan"
"""What the tab is called in the UI's addresses."""


class AdaptivePlanLink(BaseOperatorLink):
    """Opens the tab "Adaptive plan" of the task instance's run, with its region (and subtask) chosen."""

    @property
    def name(self) -> str:
        return "Adaptive plan"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return plan_address(ti_key.dag_id, ti_key.run_id, getattr(operator, "region", None), ti_key.map_index)


def plan_address(dag_id: str, run_id: str, region: str | None = None, map_index: int = -1) -> str:
    """Where the tab of a run is, with a region (and its subtask) chosen."""
    from airflow_abs.airflow_abilities import conf

    base = conf.get("api", "base_url", fallback="").rstrip("/")
    run = f"{base}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}/plugin/{PLAN_ROUTE}"
    if region is None:
        return run
    chosen = {"region": region} | ({"subtask": str(map_index)} if map_index >= 0 else {})
    return f"{run}?{urlencode(chosen)}"
