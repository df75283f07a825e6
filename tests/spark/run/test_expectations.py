"""Rows that are not as expected, through whole jobs: what is counted, who is stopped, what readers still see."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.expect.expectations import Expect, RowCountChange, Unique, read_expectations
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import DamagedFileError, ExpectationError
from airflow_abs.exchange.records.manifest import read_manifest, write_manifest
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.results.audit import check_region
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.sources.files import Files
from tests.job_runner import JobRun, plan_run, program_of, run_job

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, customer BIGINT, amount BIGINT"
ORDERS = """
    SELECT i % 290 AS id, i % 40 AS customer, CASE WHEN i % 10 = 0 THEN NULL ELSE i % 7 END AS amount
    FROM range(300) t(i)
"""
DECLARED = {
    "positive": Expect("amount > 0", on_failure="warn"),
    "mostly known": Expect("amount IS NOT NULL", tolerance=0.1),
    "one": Unique("customer", "id", on_failure="warn"),
    "as usual": RowCountChange(0.5),
}
CUT = [JobEdge("orders", "kept", "orders", Partitioning.HASH, ("customer",))]


def write_orders(root: Path, query: str = ORDERS) -> Files:
    folder = root / "orders"
    folder.mkdir(exist_ok=True)
    duckdb.sql(f"COPY ({query}) TO '{folder}/part.parquet'")
    return Files(str(folder), schema=SCHEMA)


def kept(orders: Any, least: int = -1) -> Any:
    return orders.where(f"id > {least}")


def kept_with_a_value(orders: Any) -> Any:
    return orders.selectExpr("*", "uuid() AS value")


def run_orders(
    endpoint: ConnectEndpoint, root: Path, declared: Any, parallelism: int, run_id: str = "run", **options: Any
) -> JobRun:
    """``orders -- hash(customer) --> kept --> sink``; `kept` has the expectations."""
    expectations = read_expectations("kept", declared)
    sink = Files(f"{root}/out", options.pop("form", "parquet"))
    transform, kwargs = options.pop("transform", kept), options.pop("kwargs", {})
    return run_job(
        endpoint,
        root / "exchange",
        [
            JobVertex("orders", has_source=True),
            JobVertex("kept", parallelism, has_sink=True, expectations=tuple(each.name for each in expectations)),
        ],
        CUT,
        [
            program_of("orders", None, {}, write_orders(root)),
            program_of("kept", transform, kwargs, sink=sink, expectations=expectations),
        ],
        run_id=run_id,
    )


@pytest.mark.parametrize(("parallelism", "form"), [(1, "parquet"), (3, "csv"), (8, "parquet")])
def test_counts_over_all_subtasks_are_those_of_the_whole_table(
    connect_server: ConnectEndpoint, tmp_path: Path, parallelism: int, form: str
) -> None:
    run = run_orders(connect_server, tmp_path, DECLARED, parallelism, form=form)
    found = {each.expectation.name: each for each in run.verdicts}
    rows, failed, unknown, known, repeats = duckdb.sql(
        "SELECT count(*), count(*) FILTER (NOT coalesce(amount > 0, false)), count(*) FILTER (amount IS NULL),"
        f" count(*) FILTER (amount IS NOT NULL), count(*) - count(DISTINCT (customer, id)) FROM ({ORDERS})"
    ).fetchall()[0]
    assert {each.rows for each in found.values()} == {rows}
    assert (found["positive"].tally.failed, found["positive"].tally.unknown) == (failed, unknown)
    assert (found["mostly known"].tally.failed, found["mostly known"].outcome) == (rows - known, "met")
    assert (found["one"].tally.failed, found["one"].outcome) == (repeats, "warning" if repeats else "met")
    assert duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/out/*.{form}'").fetchall() == [(rows,)]
    if form == "parquet":  # what marks repeats is not written
        assert duckdb.sql(f"FROM '{tmp_path}/out/*.parquet'").columns == ["id", "customer", "amount"]
    view = read_run(run.folder).region("kept")
    assert list(view.verdicts) == run.verdicts


def test_keys_that_are_repeated_in_one_subtask_are_counted(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    run = run_orders(connect_server, tmp_path, {"one": Unique("customer", on_failure="warn")}, 3)
    assert [each.tally.failed for each in run.verdicts] == [300 - 40]


@pytest.mark.sample
def test_rows_that_fail_leave_the_old_output_in_place(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    run_orders(connect_server, tmp_path, {"known": "id >= 0"}, 3, "before")
    before = sorted((path.name, path.stat().st_size) for path in (tmp_path / "out").iterdir())
    message = (
        r"vertex 'kept': its rows are not as expected: 'positive' \(amount > 0\): \d+ of 300 rows fail .* "
        r"tolerance 0 %\. Nothing that depends on them is published; .* raise the tolerance"
    )
    with pytest.raises(ExpectationError, match=message):
        run_orders(connect_server, tmp_path, {"positive": "amount > 0"}, 3, "after")
    assert sorted((path.name, path.stat().st_size) for path in (tmp_path / "out").iterdir()) == before


@pytest.mark.sample
def test_a_row_count_is_compared_with_the_run_before_and_stops_the_publication(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    declared = {"as usual": RowCountChange(0.2)}
    first = run_orders(connect_server, tmp_path, declared, 2, "first")
    assert [each.rows_before for each in first.verdicts] == [None]
    with pytest.raises(ExpectationError, match=r"100 rows after 300, changed by 66\.7 %; tolerance 20 %"):
        run_orders(connect_server, tmp_path, declared, 2, "second", kwargs={"least": 189}, transform=kept)
    third = run_orders(connect_server, tmp_path, declared, 2, "third")
    assert [(each.rows, each.rows_before) for each in third.verdicts] == [(300, 300)]  # the second never was published


def test_readers_of_rows_that_fail_do_not_run(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    expectations = read_expectations("orders", {"positive": "amount > 0"})
    run = plan_run(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("orders", has_source=True, expectations=("positive",)), JobVertex("kept", 2, has_sink=True)],
        CUT,
        [
            program_of("orders", None, {}, write_orders(tmp_path), expectations=expectations),
            program_of("kept", kept, {}, sink=Files(f"{tmp_path}/out")),
        ],
    )
    failed = asyncio.run(run.run_regions())
    assert [type(error) for error in failed.values()] == [ExpectationError]
    assert list(failed) == ["kept"]
    assert "kept" not in run.decisions
    with pytest.raises(ExpectationError, match="vertex 'orders': its rows are not as expected"):
        run.commit()


@pytest.mark.sample
def test_rows_that_stay_inside_a_region_are_counted_once_though_read_twice(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    def twice(orders: Any) -> Any:
        return orders.unionAll(orders)

    expectations = read_expectations("orders", {"positive": Expect("amount > 0", on_failure="warn")})
    run = run_job(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("orders", has_source=True, expectations=("positive",)), JobVertex("twice", has_sink=True)],
        [JobEdge("orders", "twice", "orders", Partitioning.FORWARD)],
        [
            program_of("orders", None, {}, write_orders(tmp_path), expectations=expectations),
            program_of("twice", twice, {}, sink=Files(f"{tmp_path}/out")),
        ],
    )
    assert [(each.vertex, each.rows) for each in run.verdicts] == [("orders", 300)]
    assert duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/out/*.parquet'").fetchall() == [(600,)]


def test_random_values_of_a_vertex_with_expectations_and_several_subtasks_stay_its_own(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    declared = {"one": Unique("customer", "value"), "valued": "value IS NOT NULL"}
    run = run_orders(connect_server, tmp_path, declared, 3, transform=kept_with_a_value)
    assert {each.outcome for each in run.verdicts} == {"met"}
    assert duckdb.sql(f"SELECT count(DISTINCT value) FROM '{tmp_path}/out/*.parquet'").fetchall() == [(300,)]


def test_a_manifest_with_rows_and_without_counts_is_not_taken_for_a_good_one(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    from dataclasses import replace

    run = run_orders(connect_server, tmp_path, {"known": "id >= 0"}, 1)
    manifest = read_manifest(run.folder, "kept", 0)
    stripped = {name: replace(result, expectations={}) for name, result in manifest.results.items()}
    write_manifest(run.folder, replace(manifest, results=stripped))
    with pytest.raises(DamagedFileError, match=r"kept\[0\]: its manifest has 300 rows and no count of the expectation"):
        check_region(RunRecords(run.folder), "kept", lambda vertex: None)
    assert "no count of the expectation 'known'" in read_run(run.folder).region("kept").problems[0]
