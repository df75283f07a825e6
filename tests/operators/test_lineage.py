from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.exchange.run_view import read_run
from airflow_abs.operators.lineage import sources_of, split_uri, written
from tests.recorded_runs import revenue_run


def test_a_sink_comes_from_all_sources_before_it(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    assert sources_of(run.plan, "by_region") == {"/lake/orders", "/lake/customers"}
    assert sources_of(run.plan, "orders") == {"/lake/orders"}


def test_rows_and_bytes_of_a_sink_are_those_of_all_subtasks(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run()
    region = read_run(run.folder).region("by_region")
    assert written(region, "by_region.sink") == (region.rows, region.bytes_out)


@pytest.mark.parametrize(
    ("path", "dataset"),
    [
        ("s3://lake/orders/ds=1", ("s3://lake", "orders/ds=1")),
        ("/lake/orders", ("file", "/lake/orders")),
        ("file:///lake/orders", ("file", "/lake/orders")),
        ("hdfs://name:8020/x", ("hdfs://name:8020", "x")),
    ],
)
def test_datasets_are_named_as_openlineage_names_them(path: str, dataset: tuple[str, str]) -> None:
    assert split_uri(path) == dataset
