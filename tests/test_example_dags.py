"""The example DAGs' own graphs and transforms on real Spark, at three fan-outs each, against DuckDB."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_abs import LAST_COMPLETE_DAY
from airflow_abs.demo.generate import DataSpec, generate
from airflow_abs.demo.oracle import QUERIES, verify
from airflow_abs.exchange.records.declared_vertex import DeclaredVertex
from airflow_abs.spark.compile.vertices import VertexProgram
from airflow_abs.tables.declared import read_declared
from tests.job_runner import JobRun, run_job

if TYPE_CHECKING:
    from airflow_abs.operators.plan import PlanOperator
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

DAY = date(2026, 1, 3)
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds `data`; the day is the largest one, with a customer who has 40 % of the orders."""
    folder = tmp_path_factory.mktemp("examples")
    generate(DataSpec(folder / "data", (DAY,), 0.05, hot_day=DAY))
    return folder


@pytest.fixture(scope="module")
def plans(folder: Path, airflow_environment: Any) -> dict[str, PlanOperator]:
    """The plan task of every example DAG, as Airflow's own DAG processing finds it."""
    from airflow_abs.airflow_abilities import DagBag

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_ABS_DEMO_DATA", str(folder / "data"))
        patch.setenv("AIRFLOW_ABS_DEMO_OUT", "{{ mart }}")
        bag = DagBag(airflow_environment.dags)
    assert not bag.import_errors
    return {
        name: next(task for task in dag.tasks if task.task_id.endswith(".plan"))  # type: ignore[misc]
        for name, dag in bag.dags.items()
    }


def render(value: Any, mart: Path) -> Any:
    """What Airflow's templating makes of the two expressions that the examples use."""
    text = json.dumps(value).replace(LAST_COMPLETE_DAY, DAY.isoformat())
    return json.loads(text.replace("{{ mart }}", str(mart)))


def run_example(server: ConnectEndpoint, plan: PlanOperator, folder: Path, **options: Any) -> JobRun:
    programs = [
        VertexProgram(
            vertex,
            plan.transforms[vertex.name],
            read_declared(vertex.source) if vertex.source else None,
            read_declared(vertex.sink) if vertex.sink else None,
        )
        for vertex in map(DeclaredVertex.from_json, render(plan.vertices, folder / "mart"))
    ]
    graph = plan.graph
    return run_job(server, folder / "exchange", graph.vertices, graph.edges, programs, **options)


@pytest.mark.parametrize(("target_bytes", "subtasks"), [(64 * MIB, (1, 1)), (180_000, (2, 5)), (30_000, (8, 32))])
@pytest.mark.parametrize("name", QUERIES)
def test_the_rows_are_duckdbs_at_every_fan_out(
    connect_server: ConnectEndpoint,
    plans: dict[str, PlanOperator],
    folder: Path,
    tmp_path: Path,
    name: str,
    target_bytes: int,
    subtasks: tuple[int, int],
) -> None:
    run = run_example(connect_server, plans[name], tmp_path, target_bytes=target_bytes)
    verdict = verify(name, DAY, folder / "data", tmp_path / "mart")
    assert verdict.problem is None
    hashed = {region.name for region in run.plan.regions if any(not entry.is_broadcast for entry in region.inputs)}
    widest = max(run.decisions[region].parallelism for region in hashed)
    assert subtasks[0] <= widest <= subtasks[1], {name: each.reason for name, each in run.decisions.items()}


@pytest.mark.parametrize("name", QUERIES)
def test_the_rows_are_duckdbs_on_a_day_on_which_no_edge_is_written(
    connect_server: ConnectEndpoint, plans: dict[str, PlanOperator], folder: Path, tmp_path: Path, name: str
) -> None:
    run = run_example(connect_server, plans[name], tmp_path, durability="auto")
    assert verify(name, DAY, folder / "data", tmp_path / "mart").problem is None
    declared = {edge.producer for edge in run.graph.edges if edge.durable}
    *written, last = run.plan.regions
    assert {region.name for region in written} == declared
    assert set(last.vertices) == {vertex.name for vertex in run.graph.vertices} - declared
    inside = {region.name for region in run.graph.regions} - declared - {last.name}
    assert run.plan.fused == dict.fromkeys(inside, last.name)
    assert run.decisions[last.name].parallelism == 1
    assert "run as one Spark operation, without writing in between" in run.decisions[last.name].reason
    assert {edge.producer for edge in run.plan.edges if edge.durable} == declared
