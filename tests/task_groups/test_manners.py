"""What Airflow's users are used to write works on vertices, or says in our words why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset, task
from airflow.sdk.bases.operator import BaseOperator

from airflow_abs import LAST_COMPLETE_DAY, AdaptiveSparkJob, AdaptiveSparkOperator, Files, VertexOptions
from airflow_abs.core.errors import JobGraphError
from airflow_abs.decorators.adaptive_spark import adaptive_spark_task
from airflow_abs.tables.overlaps import check_overlaps
from tests.gathered import vertex_arguments
from tests.task_groups.test_adaptive_spark import new_dag, new_job, passes


@task
def before() -> None: ...


@task
def after() -> None: ...


@task
def where() -> str:
    return "/mart"


def customers_of(customers: Any) -> Any:
    return customers


def sums_of(orders: Any, customers: Any = None) -> Any:
    return orders


def declare(**options: Any) -> tuple[AdaptiveSparkOperator, AdaptiveSparkOperator]:
    orders = AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"))
    own = {"task_id": "sums", "transform": passes, "sink": Files("/mart/sums")}
    sums = AdaptiveSparkOperator(**vertex_arguments({**own, "inputs": {"orders": orders.hash("region")}, **options}))
    return orders, sums


def upstream(dag: Any, name: str) -> set[str]:
    return set(dag.get_task(f"revenue.{name}").upstream_task_ids)


def test_a_sensor_in_front_of_a_vertex_holds_up_the_plan_which_reads_the_sources_schema() -> None:
    with new_dag() as dag:
        with new_job():
            orders, _ = declare()
            before() >> orders
    assert upstream(dag, "plan") == {"revenue.before"}


def test_a_task_behind_a_vertex_comes_after_its_rows_or_its_publication() -> None:
    with new_dag() as dag:
        with new_job():
            orders, sums = declare()
            orders >> after.override(task_id="read")()
            [before.override(task_id="one")(), before.override(task_id="two")()] >> sums >> [after()]
    assert upstream(dag, "read") == {"revenue.orders.run"}
    assert upstream(dag, "after") == {"revenue.sums.commit"}
    assert upstream(dag, "plan") == {"revenue.one", "revenue.two"}


def test_a_task_between_two_vertices_holds_up_the_decision_of_the_second() -> None:
    with new_dag() as dag:
        with new_job():
            orders, sums = declare()
            orders >> before() >> sums
    assert upstream(dag, "before") == {"revenue.orders.run"}
    assert upstream(dag, "sums.decide") == {"revenue.plan", "revenue.orders.run", "revenue.before"}
    assert upstream(dag, "plan") == set()


def test_vertices_can_be_ordered_without_data_and_after_the_job_has_closed() -> None:
    with new_dag() as dag:
        with new_job():
            orders, sums = declare()
            customers = AdaptiveSparkOperator(task_id="customers", source=Files("/lake/customers"))
            sums >> customers
        sums >> after()
        orders << before()
    assert upstream(dag, "customers.decide") == {"revenue.plan", "revenue.sums.commit"}
    assert dag.get_task("after").upstream_task_ids == {"revenue.sums.commit"}
    assert "before" in upstream(dag, "orders.decide")


def test_assets_of_an_author_belong_to_the_publication() -> None:
    mine, read = Asset("s3://mart/mine"), Asset("s3://lake/read")
    with new_dag() as dag:
        with new_job():
            declare(outlets=[mine], inlets=[read])
    commit = dag.get_task("revenue.sums.commit")
    assert [asset.uri for asset in commit.outlets] == ["file:///mart/sums", "s3://mart/mine"]
    assert commit.inlets == [read]
    assert not dag.get_task("revenue.sums.run").partial_kwargs.get("outlets")


def test_a_job_needs_its_xcoms_whatever_the_dags_defaults_are() -> None:
    with new_dag(default_args={"do_xcom_push": False}) as dag:
        with new_job():
            declare()
    assert dag.get_task("revenue.sums.decide").do_xcom_push
    assert dag.get_task("revenue.sums.run").partial_kwargs["do_xcom_push"]


def test_a_path_and_an_argument_may_come_from_another_task() -> None:
    with new_dag() as dag:
        with new_job():
            declare(sink=Files(where()), transform_kwargs=None)
    assert upstream(dag, "plan") == {"revenue.where"}
    assert dag.get_task("revenue.sums.commit").outlets == []


def test_two_jobs_of_a_dag_may_do_without_the_prefix_of_their_group() -> None:
    with new_dag() as dag:
        with new_job():
            declare()
        with AdaptiveSparkJob("other", exchange="file:///exchange", prefix_group_id=False):
            declare(sink=Files("/mart/other"))
    assert {"plan", "sums.commit", "revenue.plan", "revenue.sums.commit"} <= set(dag.task_ids)
    assert dag.get_task("sums.run").upstream_task_ids == {"sums.decide", "orders.run"}


def test_the_taskflow_face_can_be_overridden() -> None:
    orders = adaptive_spark_task(source=Files("/lake/orders"))(passes)
    with new_dag() as dag:
        with new_job():
            orders.override(task_id="old", retries=0)()
            orders()
    assert dag.get_task("revenue.old.run").partial_kwargs["retries"] == 0
    assert dag.get_task("revenue.passes.run").partial_kwargs["retries"] == 4


def test_sql_is_a_vertex_without_python() -> None:
    query = "SELECT region, sum(amount) AS amount FROM {orders} WHERE day = :day GROUP BY region"
    with new_dag() as dag:
        with new_job():
            declare(transform=None, sql=query, transform_kwargs={"day": LAST_COMPLETE_DAY})
    plan = dag.get_task("revenue.plan")
    assert {each.name: each.sql for each in plan.declared}["sums"] == query
    assert plan.transforms["sums"] is None
    assert "vertices" in plan.template_fields
    assert isinstance(plan, BaseOperator)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task_id": "plan"}, "vertex 'plan': a task of the job itself has this id"),
        ({"do_xcom_push": False}, "vertex 'sums': do_xcom_push=False is not supported"),
        ({"sink": None, "outlets": [Asset("s3://a")]}, "vertex 'sums': outlets= belongs to what is published, and it"),
        ({"sql": "SELECT 1"}, "vertex 'sums': it has both transform= and sql=; keep one"),
        ({"transform": None, "sql": "SELECT 1"}, "its sql does not read orders; name each input in braces, as in FROM"),
        (
            {"transform": None, "sql": "SELECT * FROM {orders} JOIN {sales}"},
            "vertex 'sums': its sql reads sales, which is not an input; its inputs are orders",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_our_words(options: dict[str, Any], message: str) -> None:
    with new_dag(), pytest.raises(JobGraphError) as refused:
        with new_job():
            declare(**options)
    assert message in str(refused.value)


def test_an_id_that_is_too_long_for_the_name_of_a_log_is_refused() -> None:
    longest = "v" * (247 - 100 - len("..decide"))
    with new_dag():
        with AdaptiveSparkJob("j" * 100, exchange="file:///exchange"):
            declare(task_id=longest, sink=None)
    with new_dag(), pytest.raises(JobGraphError) as refused:
        with AdaptiveSparkJob("j" * 100, exchange="file:///exchange"):
            declare(task_id=longest + "v", sink=None)
    assert str(refused.value) == (
        f"{'j' * 40}...: the id has 248 bytes; expected at most 247, or Airflow cannot make the folder of its log, and "
        "the task fails without one. Shorten the id of the vertex, of the job or of the group around it"
    )


def test_a_vertex_is_not_mapped_by_its_author() -> None:
    with pytest.raises(JobGraphError, match=r"vertex 'passes': .expand\(\) and .partial\(\) are not for vertices"):
        adaptive_spark_task(passes).expand(orders=[1])


CALLED = "A function that declares a vertex or a task does so when it is called: write {}()"


@pytest.mark.parametrize("given", ["alone", "in a list"])
def test_a_vertex_that_was_not_called_is_no_argument(given: str) -> None:
    customers = adaptive_spark_task(source=Files("/lake/customers"))(customers_of)
    sums = adaptive_spark_task(source=Files("/lake/orders"))(sums_of)
    with new_dag(), pytest.raises(JobGraphError) as refused:
        with new_job():
            sums(customers=customers if given == "alone" else [customers])  # and its edge is lost
    assert str(refused.value) == (
        "vertex 'sums_of': argument 'customers' is the function customers_of itself; expected another vertex, or a "
        f"JSON value. {CALLED.format('customers_of')}"
    )


def test_a_task_that_was_not_called_is_no_argument() -> None:
    with new_dag(), pytest.raises(JobGraphError, match=r"argument 'path' is the function where itself") as refused:
        with new_job():
            declare(transform=lambda orders, path: orders, transform_kwargs={"path": where})
    assert str(refused.value).endswith(CALLED.format("where"))


@pytest.mark.parametrize("of", [lambda vertex: vertex, lambda vertex: vertex.hash("id")])
def test_vertices_in_a_list_are_no_argument(of: Any) -> None:
    customers = adaptive_spark_task(source=Files("/lake/customers"))(customers_of)
    sums = adaptive_spark_task(source=Files("/lake/orders"))(sums_of)
    with new_dag(), pytest.raises(JobGraphError, match=r"'customers' holds the vertex 'customers_of', whose rows"):
        with new_job():
            sums(customers=[of(customers())])


def test_what_would_delete_its_own_input_is_refused_when_the_dag_file_is_read() -> None:
    with (
        new_dag(),
        pytest.raises(JobGraphError, match=r"the sink of vertex 'sums' \(/lake/\) is, contains or"),
    ):
        with new_job():
            declare(sink=Files("/lake/"))


def test_sinks_of_two_jobs_of_a_dag_do_not_replace_each_other() -> None:
    with new_dag():
        with new_job():
            declare()
        message = (
            r"the sinks of vertices 'sums' \(/mart/sums/x\) and 'sums' of job 'revenue' \(/mart/sums\) lie one insi"
        )
        with pytest.raises(JobGraphError, match=message):
            with AdaptiveSparkJob("other", exchange="file:///exchange"):
                declare(sink=Files("/mart/sums/x"))


def test_a_plan_compares_what_is_rendered_with_the_other_jobs_of_its_run() -> None:
    with new_dag() as dag:
        with new_job():
            declare(sink=Files("/mart/{{ day }}"))
        with AdaptiveSparkJob("other", exchange="file:///exchange"):
            declare(sink=Files("/mart/{{ day }}/x"))
        with AdaptiveSparkJob("later", exchange="file:///exchange"):
            declare(sink=Files("/mart/{{ ti.xcom_pull('x') }}"))
    plan, context = dag.get_task("revenue.plan"), {"day": "2026-01-01"}
    others = plan.jobs_besides(context)
    assert [other.job for other in others] == ["other"]
    with pytest.raises(JobGraphError, match=r"'sums' of job 'other' .* lie one inside the other"):
        check_overlaps(plan.reads_and_writes(context), others, is_rendered=True)


def test_settings_of_a_vertex_take_precedence_over_the_jobs() -> None:
    with new_dag() as dag:
        with new_job(spark_conf={"spark.sql.ansi.enabled": False, "spark.sql.session.timeZone": "UTC"}):
            declare(spark_conf={"spark.sql.session.timeZone": "Asia/Tokyo"}, schema="region STRING")
    options = {each.name: each.options for each in dag.get_task("revenue.plan").declared}["sums"]
    assert options.spark_conf == {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "Asia/Tokyo"}
    assert options.schema == "region STRING"


def test_vertices_of_one_spark_session_agree_on_its_settings() -> None:
    with new_dag(), pytest.raises(JobGraphError, match="they run in one Spark session; set the same on both"):
        with new_job():
            orders = AdaptiveSparkOperator(
                task_id="orders", source=Files("/lake"), options=VertexOptions(spark_conf={"spark.sql.x": "1"})
            )
            AdaptiveSparkOperator(task_id="sums", inputs={"orders": orders.forward()})


def test_py_files_lie_beside_the_dag_file_unless_they_say_where() -> None:
    with new_dag() as dag, new_job(py_files=["libs/prices.zip", "/opt/one.py", "s3://bucket/two.whl"]):
        declare()
    beside = Path(dag.fileloc).parent
    found = dag.get_task("revenue.plan").options.py_files
    assert found == (str(beside / "libs/prices.zip"), "/opt/one.py", "s3://bucket/two.whl")


@pytest.mark.parametrize(
    ("py_files", "message"),
    [
        (
            ["prices.tar.gz"],
            "job 'revenue': 'prices.tar.gz' of py_files is none of .py, .zip, .whl; give modules as .py and packages "
            "as .zip or .whl",
        ),
        (
            ["a/prices.whl", "b/prices.zip"],
            "job 'revenue': several of its py_files are called prices.zip, and a Spark session has one of that name; "
            "rename one",
        ),
    ],
)
def test_py_files_that_python_cannot_import_are_refused(py_files: list[str], message: str) -> None:
    with pytest.raises(JobGraphError) as caught, new_dag(), new_job(py_files=py_files):
        declare()
    assert str(caught.value) == message


@pytest.mark.parametrize("mode", ["append", "error", "overwrite_partitions"])
def test_only_an_overwrite_replaces_foreign_files(mode: Any) -> None:
    assert Files.from_json(Files("/mart", replace_foreign=True).to_json()).replace_foreign
    with pytest.raises(
        ValueError, match=f"replace_foreign is for mode 'overwrite', and this is '{mode}'; leave it out"
    ):
        Files("/mart", mode=mode, partition_by=["day"], replace_foreign=True)
