"""The demo's jobs on whatever release the server of the tests has; `make test-spark-versions` has several."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.testing.examples import EXAMPLES, compare_example, generate_data

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo-data")
    generate_data(folder)
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("parallelism", [None, 3])
def test_the_rows_of_an_example_are_duckdbs(
    name: str, parallelism: int | None, data: Path, connect_server: ConnectEndpoint
) -> None:
    assert compare_example(name, data, connect_server, parallelism) is None
