from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from benchmarks.datasets import make_tables, table_bytes, verify
from benchmarks.whole import run_whole
from benchmarks.workloads import HOT_CUSTOMER, WORKLOADS, Workload

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

SCALE = 0.002


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench-data")


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
def test_every_step_reads_a_table_or_steps_before_it(workload: Workload) -> None:
    before: set[str] = set()
    for step in workload.steps:
        assert bool(step.source) != bool(step.inputs)
        assert not step.source or step.source in workload.tables
        assert {edge.step for edge in step.inputs.values()} <= before
        before.add(step.name)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_tables_are_made_once_and_the_oracle_answers(root: Path, name: str) -> None:
    data = make_tables(root, WORKLOADS[name], SCALE)
    assert make_tables(root, WORKLOADS[name], SCALE) == data
    assert table_bytes(data) > 0
    assert verify(WORKLOADS[name], data, root / "nothing").problem == f"{name}: no Parquet file below {root}/nothing"


def test_a_wrong_row_is_found(root: Path, tmp_path: Path) -> None:
    workload = WORKLOADS["chain"]
    data = make_tables(root, workload, SCALE)
    with duckdb.connect() as connection:
        for table in workload.tables:
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{data}/{table}/*.parquet'")
        connection.execute(f"CREATE TABLE result AS {workload.oracle}")
        connection.execute(f"COPY result TO '{tmp_path}/right.parquet'")
        assert verify(workload, data, tmp_path).problem is None
        Path(tmp_path, "right.parquet").unlink()
        connection.execute("UPDATE result SET orders = orders + 1 WHERE rowid = 0")
        connection.execute(f"COPY result TO '{tmp_path}/wrong.parquet'")
    problem = verify(workload, data, tmp_path).problem
    assert problem is not None
    assert "1 are not expected, 1 are missing" in problem


def test_the_skew_is_as_said(root: Path) -> None:
    shares = {}
    for name, condition in (("hot_key", f"customer_id = {HOT_CUSTOMER}"), ("null_key", "customer_id IS NULL")):
        data = make_tables(root, WORKLOADS[name], SCALE)
        query = f"SELECT count(*) FILTER ({condition}) / count(*) FROM '{data}/sales/*.parquet'"
        shares[name] = duckdb.sql(query).fetchall()[0][0]
    assert shares["hot_key"] == pytest.approx(0.4, abs=0.02)
    assert shares["null_key"] == pytest.approx(0.045, abs=0.01)


@pytest.mark.spark
@pytest.mark.parametrize("name", WORKLOADS)
def test_spark_and_duckdb_say_the_same(connect_server: ConnectEndpoint, root: Path, tmp_path: Path, name: str) -> None:
    """The steps, fused into one Spark job, against the oracle."""
    from airflow_abs.spark.connect.session import open_session

    workload = WORKLOADS[name]
    data = make_tables(root, workload, SCALE)
    with open_session(connect_server) as session:
        run_whole(session, workload, str(data), str(tmp_path))
    assert verify(workload, data, tmp_path / "result").problem is None
