"""Publish what all subtasks of a region wrote for its sinks: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.hooks.storage import open_path
from airflow_abs.operators.job_task import JobTask, logical_date

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_abs.core.expect.verdicts import Verdict
    from airflow_abs.core.failover import Subtask
    from airflow_abs.exchange.records.run_records import RunRecords
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint
    from airflow_abs.tables.access import TableAccess

_INTERRUPT_SECONDS = 30.0


class CommitOperator(JobTask):
    """Sees that the region's rows are as expected, publishes its sinks and tells the consumers of their assets.

    A repeated commit of the same run changes nothing. Where output of a vertex that is not deterministic was lost, it
    runs readers of the old rows again, see `execution/commit.py`.

    Args:
        region: name of the region.
        table_kinds: of the tables that the job publishes to, see `airflow_abs.tables.kinds`.
        declarations: as in `JobPlan.check_declared`.
    """

    ui_color = "#fce8e6"

    def __init__(
        self,
        *,
        region: str,
        table_kinds: Collection[str] = (),
        declarations: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"task_display_name": f"commit {region}", "doc_md": _describe(region), **kwargs})
        self.region = region
        self.table_kinds = tuple(table_kinds)
        self.declarations = dict(declarations or {})
        self._published: dict[str, Any] = {}
        self._renewing: tuple[ConnectEndpoint, JobFolder] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_abs.exchange.records.run_records import RunRecords
        from airflow_abs.execution.commit import commit_region
        from airflow_abs.hooks.catalogs import table_access
        from airflow_abs.spark.catalog.session_catalog import open_session_catalog

        folder = self.folder(context)
        records = RunRecords(folder)
        records.plan.check_declared(self.region, self.declarations)
        endpoint = lambda: self.spark_hook(context).get_endpoint()  # noqa: E731
        access = table_access(partial(open_session_catalog, endpoint))
        published, verdicts = commit_region(
            records, self.region, partial(self._publish, access), partial(self._renew, endpoint)
        )
        for verdict in verdicts:
            published.setdefault(verdict.vertex, {}).setdefault("expectations", []).append(verdict.to_json())
        for vertex in (sink.vertex for sink in records.plan.region(self.region).sinks):
            sizes = published[vertex]
            self.log.info(
                "published %s: %d files, %d rows, %d bytes", vertex, sizes["files"], sizes["rows"], sizes["bytes"]
            )
            if sizes["replaced"]:
                self.log.info("this replaced the output of %s", ", ".join(sizes["replaced"]))
            if sizes.get("foreign_files"):
                self.log.warning(
                    "this replaced %d files that no publication to it knew; folders in it that were targets: %d",
                    sizes["foreign_files"],
                    sizes["foreign_targets"],
                )
        for outlet in self.outlets:
            extra: dict[str, Any] = {"run_id": folder.run_id, "date": logical_date(context), "sinks": published}
            context["outlet_events"][outlet].extra = extra
        self._published = published
        return published

    def _publish(self, access: TableAccess, records: RunRecords, region: str) -> tuple[dict[str, Any], list[Verdict]]:
        from airflow_abs.exchange.publish.published_rows import remember_rows, rows_before
        from airflow_abs.exchange.results.audit import check_region
        from airflow_abs.tables.publishing.publication import publish_region

        verdicts = check_region(records, region, partial(rows_before, records.folder))
        published: dict[str, Any] = {**publish_region(records, region, access, self.table_kinds)}
        remember_rows(records.folder, verdicts)
        return published, verdicts

    def _renew(
        self, endpoint: Callable[[], ConnectEndpoint], records: RunRecords, outdated: Mapping[Subtask, Subtask]
    ) -> None:
        from airflow_abs.spark.run.renewal import renew_blocking

        self._renewing = endpoint(), records.folder
        renew_blocking(*self._renewing, self._owner, records, outdated, open_path)

    @property
    def _owner(self) -> str:
        return f"commit {self.region}"

    def on_kill(self) -> None:
        """Stop what it runs again on Spark."""
        if self._renewing is None:
            return
        from airflow_abs.spark.run.renewal import interrupt_blocking

        with ThreadPoolExecutor(1, thread_name_prefix="interrupt") as pool:
            pool.submit(interrupt_blocking, *self._renewing, self._owner).result(timeout=_INTERRUPT_SECONDS)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Called by Airflow's OpenLineage provider, if it is installed."""
        from airflow_abs.execution.lineage import read_lineage

        folder = JobFolder(open_path(self.exchange), task_instance.dag_id, task_instance.run_id, self.job)
        return read_lineage(folder, self.region, self._published)


def _describe(region: str) -> str:
    """Documentation of the task in the UI."""
    return (
        f"Publishes what all subtasks of **{region}** wrote for its sinks: all of it at once, or nothing. Readers see "
        "the old output or the new one, never a mixture; a repeated commit changes nothing.\n\nBefore that it checks "
        "the expectations (`expect=`); if one fails, nothing is published.\n\nIts asset event has the run, its date, "
        "rows, bytes and files of each sink, and the results of the expectations."
    )
