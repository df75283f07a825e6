"""Functions of a DAG's folder run on a Spark server that can import nothing of it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from threading import Barrier
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobVertex
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from tests.job_runner import program_of, rows, run_job

pytestmark = pytest.mark.spark

HELPER = """
from threading import Lock

FACTOR = 10
GUARD = Lock()


def scale(value):
    return FACTOR * value


def guarded(value):
    with GUARD:
        return value


def logged(function):
    from functools import wraps

    @wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call
"""

LATE = """
def add(value):
    return value + 1
"""

STEPS = '''
from functools import partial

from folder_helper import guarded, logged, scale


def plain(rows):
    from pyspark.sql import functions as sf

    return rows.select(sf.udf(scale, "bigint")("x").alias("y"))


def with_factor(rows, factor):
    from pyspark.sql import functions as sf

    return rows.select(sf.udf(lambda value: scale(value) * factor, "bigint")("x").alias("y"))


bound = partial(with_factor, factor=2)


@logged
def decorated(rows):
    return plain(rows)


class Multiplied:
    def __init__(self, factor):
        self.factor = factor

    def apply(self, value):
        return scale(value) * self.factor

    def __call__(self, rows):
        from pyspark.sql import functions as sf

        return rows.select(sf.udf(self.apply, "bigint")("x").alias("y"))

    def step(self, rows):
        return self(rows)


called = Multiplied(3)
method = called.step


def late(rows):
    """Imports in the middle, and asks for columns before it ends."""
    from pyspark.sql import functions as sf

    from late_package.late_helper import add

    found = rows.select(sf.udf(add, "bigint")("x").alias("y"))
    return found.select(found.columns)


def locked(rows):
    from pyspark.sql import functions as sf

    return rows.select(sf.udf(guarded, "bigint")("x").alias("y"))
'''


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("dags")
    (folder / "folder_helper.py").write_text(HELPER)
    (folder / "late_package").mkdir()
    (folder / "late_package" / "late_helper.py").write_text(LATE)
    (folder / "folder_steps.py").write_text(dedent(STEPS))
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("folder_steps")
    finally:
        sys.path.remove(str(folder))
        for name in ("folder_steps", "folder_helper", "late_package.late_helper", "late_package"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    pq.write_table(pa.table({"x": [1, 2, 3]}), folder / "0.parquet")
    return folder


def run(server: ConnectEndpoint, lake: Path, root: Path, transform: Callable[..., Any]) -> list[int]:
    program = program_of("step", transform, {}, Files(str(lake)), Files(str(root / "out")))
    run_job(server, root / "exchange", [JobVertex("step", has_source=True, has_sink=True)], [], [program])
    return [y for (y,) in rows(f"SELECT y FROM read_parquet('{root}/out/*.parquet')")]


def registered() -> set[str]:
    from pyspark import cloudpickle

    return set(cloudpickle.list_registry_pickle_by_value())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", [10, 20, 30]),
        pytest.param("bound", [20, 40, 60], marks=pytest.mark.sample),
        ("decorated", [10, 20, 30]),
        ("called", [30, 60, 90]),
        ("method", [30, 60, 90]),
        ("late", [2, 3, 4]),
    ],
)
def test_a_function_of_the_dag_s_folder_takes_what_it_refers_to_along(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, steps: ModuleType, name: str, expected: list[int]
) -> None:
    assert run(connect_server, lake, tmp_path, getattr(steps, name)) == expected
    assert registered() == set()


def test_plans_of_several_threads_do_not_take_it_from_each_other(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, steps: ModuleType
) -> None:
    together = Barrier(3, timeout=120)

    def in_step(transform: Callable[..., Any]) -> Callable[..., Any]:
        def waiting(rows: Any) -> Any:
            together.wait()  # all are compiling; whoever ends first must leave the others what they need
            return transform(rows)

        return waiting

    names = ("plain", "bound", "late")
    with ThreadPoolExecutor(3) as pool:
        runs = [
            pool.submit(run, connect_server, lake, tmp_path / name, in_step(getattr(steps, name))) for name in names
        ]
        assert [each.result(300) for each in runs] == [[10, 20, 30], [20, 40, 60], [2, 3, 4]]
    assert registered() == set()


@pytest.mark.sample
def test_what_cannot_travel_is_refused_in_plan(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, steps: ModuleType
) -> None:
    with pytest.raises(JobGraphError) as caught:
        run(connect_server, lake, tmp_path, steps.locked)
    said = str(caught.value)
    assert said.startswith("vertex 'step': a Python function of its transform cannot be sent to Spark (")
    assert "cannot pickle '_thread.lock' object" in said
    assert said.endswith(
        "A function of the DAG's folder travels with all that it refers to: create locks, connections and the like "
        "inside it, or give its module to the job as JobOptions(py_files=[...]) and import it inside"
    )


def test_installed_packages_and_this_one_are_named_not_sent() -> None:
    import json

    import airflow_abs.settings as ours
    from airflow_abs.spark.transforms.by_value import is_authors

    assert not any(is_authors(module.__name__, module) for module in (json, sys, pytest, ours))
    assert is_authors(__name__, sys.modules[__name__])
