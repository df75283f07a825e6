"""What the tasks of a job have in common: where the run's folder is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_abs.airflow_abilities import RETRY_POLICIES, has
from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.execution.links import AdaptivePlanLink
from airflow_abs.hooks.storage import open_path
from airflow_abs.operators.judged import judged, judging

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

    from airflow_abs.airflow_abilities import RetryPolicy
    from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook


class JobTask(BaseOperator):
    """A task of an `AdaptiveSparkJob`.

    Args:
        exchange: templated URI of the exchange.
        job: id of the task group.
        conn_id: Airflow connection of type ``spark_connect``.
        ephemeral: whether the run has a Spark server of its own.
        retry_policy: Airflow's argument of this name. Where Airflow has none, the task asks the policy itself.
    """

    template_fields: Sequence[str] = ("exchange",)
    operator_extra_links = (AdaptivePlanLink(),)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in {"execute", "execute_complete"} & vars(cls).keys():
            setattr(cls, name, judging(vars(cls)[name]))

    def __init__(
        self,
        *,
        exchange: str,
        job: str,
        conn_id: str,
        ephemeral: bool = False,
        retry_policy: RetryPolicy | None = None,
        **kwargs: Any,
    ) -> None:
        if has(RETRY_POLICIES):
            kwargs["retry_policy"] = retry_policy
        super().__init__(**kwargs)
        self.retry_policy = retry_policy
        self.exchange = exchange
        self.job = job
        self.conn_id = conn_id
        self.ephemeral = ephemeral

    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """As Airflow's.

        Raises:
            JobGraphError: a template names a variable that this run does not have; so would its next try.
        """
        with judged(self.retry_policy, context):
            self._render_or_refuse(context, jinja_env)

    def _render_or_refuse(self, context: Context, jinja_env: jinja2.Environment | None) -> None:
        from jinja2 import UndefinedError

        try:
            super().render_template_fields(context, jinja_env)
        except UndefinedError as error:
            hint = (
                ""
                if context.get("logical_date")
                else (
                    "; the run has no logical date, so there is no ds, ts or data_interval_end: trigger the DAG with "
                    "one, or "
                    "give the template a value of its own, such as {{ params.day }}"
                )
            )
            raise JobGraphError(f"job {self.job!r}: a template cannot be rendered: {error}{hint}") from error

    def folder(self, context: Context) -> JobFolder:
        run = context["dag_run"]
        return JobFolder(open_path(self.exchange), run.dag_id, run.run_id, self.job)

    def spark_hook(self, context: Context) -> AdaptiveSparkHook:
        """The way to the run's Spark server."""
        from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook

        return AdaptiveSparkHook(self.conn_id, self.folder(context) if self.ephemeral else None)


def logical_date(context: Context) -> str:
    """The run's logical date in ISO form; when it could run first, if it has none."""
    run = context["dag_run"]
    date = run.logical_date or run.run_after
    return str(date.isoformat())
