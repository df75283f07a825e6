"""What authors use to test their jobs, used as they would."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.exchange.sources.files import Files
from airflow_abs.testing import assert_same_at_any_parallelism, run_locally

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

ORDERS = [
    {"customer_id": key % 5 or None, "amount": key, "at": datetime(2026, 1, 3, key % 24, tzinfo=UTC)}
    for key in range(40)
]
CUSTOMERS = pa.table({"customer_id": [1, 2, 3], "region": ["north", "south", "north"]})
INPUTS = {"orders": ORDERS, "customers": CUSTOMERS}


def of_day(source: Any, day: str) -> Any:
    return source.where(f"date(at) = DATE '{day}'")


def enrich(orders: Any, customers: Any) -> Any:
    return orders.join(customers, "customer_id", "left")


def total(enriched: Any) -> Any:
    from pyspark.sql import functions as sf

    return enriched.groupBy("region").agg(sf.sum("amount").alias("revenue"))


def rows_of_each_batch(source: Any) -> Any:
    """Depends on how rows are cut, and no planner can know it."""
    return source.mapInPandas(lambda batches: (batch.assign(n=len(batch))[["n"]] for batch in batches), "n BIGINT")


@pytest.fixture(scope="module")
def job() -> Any:
    from airflow.sdk import DAG

    from airflow_abs.operators.adaptive_spark import AdaptiveSparkOperator
    from airflow_abs.task_groups.adaptive_spark import AdaptiveSparkJob

    with DAG("daily_revenue", schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        with AdaptiveSparkJob("revenue", exchange="s3://scratch/exchange", durability="auto") as revenue:
            orders = AdaptiveSparkOperator(
                task_id="orders",
                source=Files(
                    "s3://lake/orders/ds={{ ds }}", "csv", schema="customer_id INT, amount BIGINT, at TIMESTAMP"
                ),
                transform=of_day,
                transform_kwargs={"day": "{{ ds }}"},
            )
            customers = AdaptiveSparkOperator(task_id="customers", source=Files("s3://lake/customers"))
            enriched = AdaptiveSparkOperator(
                task_id="enriched",
                inputs={"orders": orders.hash("customer_id"), "customers": customers.hash("customer_id")},
                transform=enrich,
            )
            passed = AdaptiveSparkOperator(task_id="passed", inputs={"enriched": enriched.hash("region")})
            AdaptiveSparkOperator(
                task_id="by_region",
                inputs={"enriched": passed.forward()},
                transform=total,
                sink=Files("s3://mart/revenue/ds={{ ds }}", "csv", options={"header": "true"}),
            )
    return revenue


@pytest.mark.sample
def test_a_declared_job_runs_on_small_tables_and_shows_the_rows_and_the_decision_of_every_vertex(
    connect_server: ConnectEndpoint, job: Any
) -> None:
    run = run_locally(job, 3, INPUTS, endpoint=connect_server, logical_date="2026-01-03")
    assert list(run) == ["orders", "customers", "enriched", "passed", "by_region"]
    assert {name: vertex.decision.parallelism for name, vertex in run.items()} == dict.fromkeys(run, 3)
    # nothing of a step is left out because nobody reads it
    assert run["orders"].rows.column_names == ["customer_id", "amount", "at"]
    assert (run["orders"].rows.num_rows, run["enriched"].rows.num_rows) == (40, 40)
    # keys 1, 2, 3: 8 orders each, amounts k, k + 5, ..., k + 35: 8 k + 140; key 4 and NULL have no customer
    assert sorted(run["by_region"].rows.to_pylist(), key=repr) == [
        {"region": "north", "revenue": 148 + 164},
        {"region": "south", "revenue": 156},
        {"region": None, "revenue": 172 + 140},
    ]
    assert run["orders"].rows.schema.field("customer_id").type == pa.int32()  # as the source declares it
    assert sorted(run["orders"].rows.to_pylist(), key=lambda row: row["amount"]) == ORDERS
    assert run["passed"].rows.num_rows == run["enriched"].rows.num_rows == 40


class Revenues:
    """A table that has the wrong columns for the job's rows; only what `plan` asks of a table is there."""

    mode = "append"
    asset_uri = None

    def to_json(self) -> dict[str, Any]:
        return {}

    def target(self, access: Any) -> TargetTable:
        columns = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("region", "month")]
        schema = json.dumps({"type": "struct", "fields": columns})
        return TargetTable("lake.db.revenue", "lake", "append", "a table", schema)


def test_the_columns_of_a_table_are_compared_if_asked_for(connect_server: ConnectEndpoint) -> None:
    from airflow.sdk import DAG

    from airflow_abs.operators.adaptive_spark import AdaptiveSparkOperator
    from airflow_abs.task_groups.adaptive_spark import AdaptiveSparkJob

    with DAG("tables"), AdaptiveSparkJob("tables", exchange="memory://unused") as job:
        AdaptiveSparkOperator(task_id="regions", source=Files("-"), sink=Revenues())
    run = run_locally(job, 1, {"regions": CUSTOMERS}, endpoint=connect_server)
    assert run["regions"].rows.num_rows == 3
    message = "'regions': its output lacks month and also has customer_id, compared with table lake.db.revenue, whose"
    with pytest.raises(JobGraphError, match=message):
        run_locally(job, 1, {"regions": CUSTOMERS}, endpoint=connect_server, check_sinks=True)


def test_without_a_parallelism_the_small_day_is_decided_as_on_any_day(
    connect_server: ConnectEndpoint, job: Any
) -> None:
    run = run_locally(job, None, INPUTS, endpoint=connect_server, logical_date=datetime(2026, 1, 3, tzinfo=UTC))
    assert {vertex.decision.parallelism for vertex in run.values()} == {1}
    assert "one Spark operation" in run["by_region"].decision.reason


def test_a_job_is_the_same_at_any_parallelism(connect_server: ConnectEndpoint, job: Any) -> None:
    assert_same_at_any_parallelism(
        job, (1, 2, 7), INPUTS, endpoint=connect_server, logical_date=datetime(2026, 1, 3, tzinfo=UTC)
    )


@pytest.mark.sample
def test_rows_that_depend_on_the_parallelism_are_shown(connect_server: ConnectEndpoint) -> None:
    from airflow.sdk import DAG

    from airflow_abs.operators.adaptive_spark import AdaptiveSparkOperator
    from airflow_abs.task_groups.adaptive_spark import AdaptiveSparkJob

    with DAG("batches"), AdaptiveSparkJob("batches", exchange="memory://unused") as batches:
        AdaptiveSparkOperator(task_id="sizes", source=Files("-"), transform=rows_of_each_batch)
    message = "vertex 'sizes': its rows at parallelism 4 are not those at 1: .* missing"
    with pytest.raises(AssertionError, match=message):
        assert_same_at_any_parallelism(batches, (1, 4), {"sizes": ORDERS}, endpoint=connect_server)
    with pytest.raises(ValueError, match="expected at least two numbers to compare"):
        assert_same_at_any_parallelism(batches, (4,))


def totals_twice(orders: Any, customers: Any) -> Any:
    """Needs its rows together by two keys, one after the other."""
    by_region = orders.join(customers, "customer_id").groupBy("region").sum("amount").toDF("region", "revenue")
    return by_region.orderBy("region")


def job_of_totals(**options: Any) -> Any:
    from airflow.sdk import DAG

    from airflow_abs import JobOptions
    from airflow_abs.operators.adaptive_spark import AdaptiveSparkOperator
    from airflow_abs.task_groups.adaptive_spark import AdaptiveSparkJob

    with (
        DAG("totals"),
        AdaptiveSparkJob(
            "totals", exchange="memory://unused", durability="always", options=JobOptions(**options)
        ) as totals,
    ):
        orders = AdaptiveSparkOperator(task_id="orders", source=Files("-"))
        customers = AdaptiveSparkOperator(task_id="customers", source=Files("-"))
        by_region = AdaptiveSparkOperator(
            task_id="by_region",
            inputs={"orders": orders.hash("customer_id"), "customers": customers.hash("customer_id")},
            transform=totals_twice,
        )
        AdaptiveSparkOperator(
            task_id="top", inputs={"by_region": by_region}, transform=lambda by_region: by_region.limit(1)
        )
    return totals


@pytest.mark.sample
def test_what_cannot_run_in_parts_is_one_subtask_and_says_why(
    connect_server: ConnectEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    run = run_locally(job_of_totals(), None, INPUTS, endpoint=connect_server)
    revenue = {"north": 148 + 164, "south": 156}
    assert run["by_region"].rows.to_pylist() == [{"region": name, "revenue": revenue[name]} for name in revenue]
    assert run["top"].rows.num_rows == 1
    decision = run["by_region"].decision
    assert decision.parallelism == 1
    assert decision.reason.startswith("an aggregate (groupBy, agg, count, ...) at test_run_locally.py:")
    warned = [each.getMessage() for each in caplog.records if "runs as one subtask" in each.getMessage()]
    assert [each.split(":")[0] for each in warned] == [
        f"vertex {name!r} runs as one subtask, one Spark operation over all slots" for name in ("top", "by_region")
    ]
    assert all("JobOptions(unsplittable='refuse') fails here instead" in each for each in warned)


def test_what_cannot_run_in_parts_is_refused_if_the_job_says_so(connect_server: ConnectEndpoint) -> None:
    with pytest.raises(JobGraphError, match="vertex 'top' cannot run in parts: limit"):
        run_locally(job_of_totals(unsplittable="refuse"), None, INPUTS, endpoint=connect_server)


def test_what_is_wrong_with_the_inputs_or_the_templates_is_said(connect_server: ConnectEndpoint, job: Any) -> None:
    for inputs, message in (
        (
            {"enriched": CUSTOMERS},
            "'enriched' has no source that rows could replace; vertices with one: customers, ord",
        ),
        ({"customers": []}, "'customers' has no rows and so no columns"),
        ({"customers": "x"}, "rows of vertex 'customers' are str; expected a pyarrow Table or a list of dicts"),
        (INPUTS, "a template needs a variable that it does not have here .*'ds' is undefined.*logical_date"),
    ):
        with pytest.raises(JobGraphError, match=message):
            run_locally(job, 2, inputs, endpoint=connect_server)
    with pytest.raises(JobGraphError, match="logical_date is 'yesterday'; expected a date such as '2026-01-03' or"):
        run_locally(job, 2, INPUTS, endpoint=connect_server, logical_date="yesterday")
    with pytest.raises(JobGraphError, match="has no plan task; expected an AdaptiveSparkJob"):
        run_locally("revenue", 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schedule", "zone", "has_intervals", "day"),
    [
        ("@daily", "UTC", False, "2026-01-02"),
        ("@daily", "UTC", True, "2026-01-02"),
        ("0 1 * * *", "Europe/Berlin", False, "2026-01-02"),
        ("@daily", "America/Los_Angeles", False, "2026-01-01"),
        (None, "UTC", False, "2026-01-02"),
    ],
)
def test_the_last_complete_day_is_the_one_of_airflows_dags_test(
    schedule: str | None, zone: str, has_intervals: bool, day: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pendulum
    from airflow.sdk import DAG

    from airflow_abs import LAST_COMPLETE_DAY
    from airflow_abs.operators.adaptive_spark import AdaptiveSparkOperator
    from airflow_abs.task_groups.adaptive_spark import AdaptiveSparkJob
    from airflow_abs.testing import local

    monkeypatch.setenv("AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS", str(has_intervals))
    start = pendulum.datetime(2025, 1, 1, tz=zone)
    with DAG("d", schedule=schedule, start_date=start), AdaptiveSparkJob("j", exchange="/tmp/exchange") as job:
        AdaptiveSparkOperator(task_id="orders", source=Files("/lake"))
    plan = local._plan_task(job)
    for date in (datetime(2026, 1, 3, tzinfo=UTC), "2026-01-03", "2026-01-03T01:00:00+01:00"):
        context = local._context(plan.dag, date, None)
        assert local._render(plan, LAST_COMPLETE_DAY, context) == day
    with pytest.raises(JobGraphError, match=r"this run has no logical date.*give run_locally a logical_date"):
        local._render(plan, LAST_COMPLETE_DAY, local._context(plan.dag, None, None))


def test_importing_it_loads_neither_pyspark_nor_airflow(airflow_environment: Any) -> None:
    from tests.test_imports import HEAVY, loaded_by

    assert not loaded_by("import airflow_abs.testing", airflow_environment.variables) & (HEAVY | {"airflow"})
