"""What Airflow's own views say about the tasks of a job."""

from __future__ import annotations

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.settings import JobSettings
from airflow_abs.operators.commit import CommitOperator
from airflow_abs.operators.decide import DecideOperator
from airflow_abs.operators.plan import PlanOperator
from airflow_abs.operators.release import ReleaseOperator
from airflow_abs.operators.run_subtask import describe_region

COMMON = {"exchange": "file:///x", "job": "revenue", "conn_id": "spark"}


def test_decide_says_what_it_decides_from_and_by_which_rule() -> None:
    task = DecideOperator(task_id="decide", region="enriched", producers={"orders": "revenue.orders.run"}, **COMMON)
    assert task.task_display_name == "decide enriched"
    assert task.doc_md.startswith(
        "Decides how many subtasks **enriched** gets, and which range each of them reads, from the bytes that "
        "`revenue.orders.run` reported and any files that it reads.\n\nThe fewest consecutive ranges that keep"
    )
    source = DecideOperator(task_id="decide", region="orders", producers={}, **COMMON)
    assert "from the files that it reads, as they are on the day.\n" in source.doc_md


def test_the_other_tasks_say_what_they_do_and_when_it_fails_there() -> None:
    vertices = [JobVertex("orders", has_source=True), JobVertex("enriched")]
    edges = [JobEdge("orders", "enriched", "orders", Partitioning.HASH, ("id",))]
    graph = build_job_graph(vertices, edges, 8)
    plan = PlanOperator(task_id="plan", graph=graph, vertices=[], transforms={}, options=JobSettings(), **COMMON)
    assert "wrong columns, missing paths" in plan.doc_md
    assert plan.doc_md.endswith("* **orders**\n* **enriched** reads orders -> enriched.orders [hash(id)]")
    commit = CommitOperator(task_id="commit", region="enriched", **COMMON)
    assert commit.task_display_name == "commit enriched"
    assert commit.doc_md.startswith("Publishes what all subtasks of **enriched** wrote")
    release = ReleaseOperator(task_id="release", task_ids=[], **COMMON)
    assert "after a failure the data stays" in release.doc_md


def test_a_title_of_the_authors_own_is_kept() -> None:
    task = DecideOperator(task_id="decide", region="a", producers={}, task_display_name="mine", doc_md="own", **COMMON)
    assert (task.task_display_name, task.doc_md) == ("mine", "own")


def test_run_says_its_inputs_and_how_many_subtasks_there_can_be() -> None:
    vertices = [JobVertex("orders", has_source=True), JobVertex("enriched"), JobVertex("fixed", parallelism=3)]
    edges = [
        JobEdge("orders", "enriched", "orders", Partitioning.HASH, ("id",)),
        JobEdge("enriched", "fixed", "enriched", Partitioning.REBALANCE),
    ]
    orders, enriched, fixed = build_job_graph(vertices, edges, 8).regions
    assert "files, with a parallelism inferred from their bytes" in describe_region(orders)
    text = describe_region(enriched)
    assert text.startswith("Subtasks of **enriched**, each one range of its inputs. Between 1 and 8 subtasks, decided")
    assert "* orders -> enriched.orders [hash(id)]" in text
    assert "3 subtasks, set by the author." in describe_region(fixed)
