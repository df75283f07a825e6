"""The record of a declared vertex: JSON for Airflow's templates, JSON in `plan.json`, and the same values again."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

from airflow_abs.core.durability.demands import DeclaredDemands
from airflow_abs.core.expect.expectations import Expectation
from airflow_abs.core.graph.job_graph import JobVertex
from airflow_abs.core.settings import VertexOptions
from airflow_abs.exchange.records.declared_vertex import DeclaredVertex, digest_declaration, find_declared_demands

TOTALS = DeclaredVertex(
    name="totals",
    source={"path": "/lake/{{ ds }}", "format": "parquet"},
    sink={"path": "/mart", "format": "parquet"},
    transform_kwargs={"day": "{{ ds }}"},
    expectations=(Expectation("one", "warn", 0.5, columns=("id",)),),
    options=VertexOptions(parallelism=3, spark_conf={"spark.sql.ansi.enabled": "false"}, join="inner"),
    is_awaited=True,
    task=2,
)


def test_what_goes_through_json_comes_back_as_it_was() -> None:
    assert DeclaredVertex.from_json(json.loads(json.dumps(TOTALS.to_json()))) == TOTALS


def test_a_path_that_is_an_xcom_is_handed_to_airflow_as_it_is() -> None:
    xcom = object()
    source: Any = {"path": xcom}
    assert DeclaredVertex("orders", source=source).to_json()["source"]["path"] is xcom


def test_plan_json_holds_the_text_of_an_argument_that_is_no_json() -> None:
    kwargs = {"day": date(2026, 1, 2), "least": 3}
    recorded = DeclaredVertex("orders", transform_kwargs=kwargs).as_recorded()
    assert recorded.transform_kwargs == {"day": "2026-01-02", "least": 3}


def test_the_graph_and_the_demands_of_edges_come_from_the_record() -> None:
    assert TOTALS.to_vertex() == JobVertex("totals", 3, None, has_source=True, has_sink=True, expectations=("one",))
    assert not DeclaredVertex("plain").to_vertex().is_gate
    shaky = DeclaredVertex("shaky", options=VertexOptions(deterministic=False))
    assert find_declared_demands([TOTALS, shaky], ["random"]) == DeclaredDemands(
        nondeterministic={"shaky", "random"}, ordered={"totals"}, joins={"totals"}
    )


def test_the_digest_of_a_declaration_is_the_same_in_every_process_whatever_an_argument_is() -> None:
    def digest(value: Any) -> str:
        return digest_declaration(DeclaredVertex("orders", transform_kwargs={"value": value}), [])

    assert digest(object()) == digest(object())
    assert digest({"a", "b"}) == digest({"b", "c"})
    assert digest(date(2026, 1, 2)) != digest(date(2026, 1, 3))


def test_the_digest_of_a_declaration_follows_what_makes_rows_and_nothing_else() -> None:
    same = replace(TOTALS, task=3, is_awaited=False, options=replace(TOTALS.options, parallelism=5))
    assert digest_declaration(same, []) == digest_declaration(TOTALS, [])
    for other in (replace(TOTALS, sql="SELECT 1"), replace(TOTALS, options=replace(TOTALS.options, join="left"))):
        assert digest_declaration(other, []) != digest_declaration(TOTALS, [])
