from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pendulum
import pytest

from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.sources.pinned import PinnedTable
from airflow_abs.exchange.sources.planned_source import SourceColumn
from airflow_abs.execution.lineage import (
    ReadSource,
    sources_of,
    split_table,
    split_uri,
    version_made,
    with_parent_job,
    written,
)
from airflow_abs.operators.commit import CommitOperator
from tests.recorded_runs import revenue_run

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "region", "type": "string"},
            {"name": "prices", "type": {"type": "array", "elementType": "decimal(18,2)", "containsNull": True}},
            {"name": "tags", "type": {"type": "map", "keyType": "string", "valueType": "long"}},
            {"name": "place", "type": {"type": "struct", "fields": [{"name": "zip", "type": "integer"}]}},
        ],
    }
)


def test_a_sink_comes_from_all_sources_before_it(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.schema = SCHEMA
    orders = {("file", "/lake/orders"): ReadSource("", SCHEMA)}
    assert sources_of(run.plan, "by_region") == orders | {("file", "/lake/customers"): ReadSource("", SCHEMA)}
    assert sources_of(run.plan, "orders") == orders


@pytest.mark.parametrize(
    ("name", "dataset"),
    [("lake.sales.orders", ("lake", "sales.orders")), ("s3://lake/db.v1/orders", ("s3://lake", "db.v1/orders"))],
)
def test_a_table_is_in_the_namespace_of_its_catalog_or_where_its_path_leads(
    tmp_path: Path, name: str, dataset: tuple[str, str]
) -> None:
    run = revenue_run(tmp_path)
    run.schema = SCHEMA
    plan = run.plan
    table = PinnedTable(name, "snapshot 7", "parquet", "{}", 1, 10, 1, 10)
    (source,) = plan.region("orders").sources
    regions = [
        replace(region, sources=(replace(source, files=None, table=table),)) if region.name == "orders" else region
        for region in plan.regions
    ]
    found = sources_of(replace(plan, regions=tuple(regions)), "by_region")
    assert found == {dataset: ReadSource("snapshot 7", SCHEMA), ("file", "/lake/customers"): ReadSource("", SCHEMA)}


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("lake.sales.orders", ("lake", "sales.orders")),
        ("/lake/orders.v2", ("file", "/lake/orders.v2")),
        ("s3://my_aws@lake/orders", ("s3://lake", "orders")),
    ],
)
def test_a_table_that_is_a_folder_is_named_as_folders_are(table: str, name: tuple[str, str]) -> None:
    assert split_table(table) == name


def test_the_version_of_a_sink_is_what_its_kind_says_beside_what_all_do() -> None:
    files = {"target": "/mart", "identity": "i", "files": 1, "rows": 2, "bytes": 3, "changed": True, "replaced": ()}
    assert version_made(files) == version_made({}) == version_made({**files, "version": None}) == ""
    assert version_made({"version": 7, **files, "expectations": []}) == "version 7"


def test_rows_and_bytes_of_a_sink_are_those_of_all_subtasks(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run()
    region = read_run(run.folder).region("by_region")
    assert written(region, "by_region.sink") == (region.rows, region.bytes_out, len(region.subtasks))


def test_what_commit_tells_reaches_a_file_as_an_openlineage_event(tmp_path: Path) -> None:
    """Through the provider's own extractor and OpenLineage's own client."""
    from airflow.providers.openlineage.extractors.base import DefaultExtractor
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
    from openlineage.client.transport.file import FileConfig, FileTransport

    run = revenue_run(tmp_path / "exchange")
    run.schema = SCHEMA
    run.column_sources = {"by_region": {"region": (SourceColumn("customers.source", "region"),), "n": ()}}
    run.write_plan()
    run.run()
    commit = CommitOperator(
        task_id="commit", region="by_region", exchange=f"file://{tmp_path}/exchange", job="revenue", conn_id="spark"
    )
    commit._published = {"by_region": {"snapshot": 7041, "target": "lake.mart.revenue", "rows": 5, "changed": True}}
    instance = SimpleNamespace(dag_id=run.folder.dag_id, run_id=run.folder.run_id, state="success")
    lineage = DefaultExtractor(commit).extract_on_complete(instance)
    event = RunEvent(
        eventType=RunState.COMPLETE,
        eventTime="2026-01-03T00:00:00Z",
        run=Run(str(UUID(int=7))),
        job=Job("airflow", "daily_revenue.revenue.by_region.commit"),
        inputs=lineage.inputs,
        outputs=lineage.outputs,
    )
    OpenLineageClient(transport=FileTransport(FileConfig(str(tmp_path / "events"), append=True))).emit(event)
    told = json.loads((tmp_path / "events").read_text())
    assert [each["name"] for each in told["inputs"]] == ["/lake/customers", "/lake/orders"]
    assert all("version" not in each.get("facets", {}) for each in told["inputs"])
    (sink,) = told["outputs"]
    for dataset in (*told["inputs"], sink):
        assert [described(each) for each in dataset["facets"]["schema"]["fields"]] == [
            ("region", "string", []),
            ("prices", "array", [("_element", "decimal(18,2)", [])]),
            ("tags", "map", [("key", "string", []), ("value", "long", [])]),
            ("place", "struct", [("zip", "integer", [])]),
        ]
    assert sink["facets"]["version"]["datasetVersion"] == "snapshot 7041"
    assert list(sink["facets"]["columnLineage"]["fields"]) == ["region"]
    (origin,) = sink["facets"]["columnLineage"]["fields"]["region"]["inputFields"]
    assert [origin[each] for each in ("namespace", "name", "field")] == ["file", "/lake/customers", "region"]
    region = read_run(run.folder).region("by_region")
    statistics = sink["outputFacets"]["outputStatistics"]
    assert (sink["namespace"], sink["name"]) == ("file", "/mart/revenue")
    assert {name: statistics[name] for name in ("rowCount", "size", "fileCount")} == {
        "rowCount": region.rows,
        "size": region.bytes_out,
        "fileCount": len(region.subtasks),
    }


def described(field: dict[str, Any]) -> tuple[str, str, list[Any]]:
    return field["name"], field["type"], [described(each) for each in field.get("fields", [])]


@pytest.mark.parametrize(
    ("path", "dataset"),
    [
        ("s3://lake/orders/ds=1", ("s3://lake", "orders/ds=1")),
        ("s3a://minio@lake/orders", ("s3://lake", "orders")),
        ("/lake/orders", ("file", "/lake/orders")),
        ("file:///lake/orders", ("file", "/lake/orders")),
        ("hdfs://name:8020/x", ("hdfs://name:8020", "x")),
    ],
)
def test_datasets_are_named_as_openlineage_names_them(path: str, dataset: tuple[str, str]) -> None:
    assert split_uri(path) == dataset


def test_a_spark_of_its_own_is_told_the_task_and_the_run_if_airflow_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    date = pendulum.datetime(2026, 1, 1, tz="UTC")
    run = SimpleNamespace(logical_date=date, run_after=date, clear_number=0, conf={})
    instance = SimpleNamespace(
        dag_id="sales", task_id="revenue.start_server", try_number=1, map_index=-1, logical_date=date, dag_run=run,
        get_template_context=lambda: {"dag_run": run},
    )  # fmt: skip
    context: Any = {"ti": instance, "dag_run": run}
    settings = {"spark.executor.memory": "2g"}
    assert with_parent_job(settings, context) == settings
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO", "True")
    told = with_parent_job(settings, context)
    assert told.pop("spark.executor.memory") == "2g"
    assert (
        UUID(told["spark.openlineage.parentRunId"]).version == UUID(told["spark.openlineage.rootParentRunId"]).version
    )
    assert told["spark.openlineage.parentJobName"] == "sales.revenue.start_server"
    assert told["spark.openlineage.rootParentJobName"] == "sales"
    named = {"spark.openlineage.parentJobName": "another"}
    assert with_parent_job(named, context) == named
