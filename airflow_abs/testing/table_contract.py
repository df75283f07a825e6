"""What a kind of table is asked for when its contract is tested, and what its tests share."""

from __future__ import annotations

import asyncio
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_abs.exchange.publish.record import StagedFile
    from airflow_abs.exchange.publish.target_table import TargetTable
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint
    from airflow_abs.tables.access import TableAccess
    from airflow_abs.testing.job_run import JobRun
    from airflow_abs.testing.local import LocalRun

_BATCH = 10
_REGIONS = (None, "north", "south", "", "a/b=c%")


class TableContract(ABC):
    """How the tests make a table and look at it, each test another one; what is abstract is for the kind to say.

    A test class inherits from it through `TableSourceContract` or `TableSinkContract`, and has a fixture (`autouse`)
    that makes the place of the test's table and sets the Airflow connection to it, if it needs one:
    ``monkeypatch.setenv("AIRFLOW_CONN_LAKE", ...)``.
    """

    parallelisms: Sequence[int] = (1, 3, 8)
    has_partitions = True
    """Whether tables of the kind may be partitioned by a column."""

    @abstractmethod
    def declare(self, **arguments: Any) -> Any:
        """The test's table as a DAG declares it, with these further arguments: ``mode=`` (sinks), ``where=``."""

    @abstractmethod
    def create(self, columns: pa.Schema, partition_by: Sequence[str] = ()) -> None:
        """Make the table, without rows; no column is required."""

    @abstractmethod
    def append(self, rows: pa.Table) -> None:
        """Add rows to it in one commit, as another writer of the format does."""

    @abstractmethod
    def overwrite(self, rows: pa.Table) -> None:
        """Leave only these rows in it, as another writer of the format does."""

    @abstractmethod
    def read(self) -> pa.Table:
        """All its rows, by the format's own reader."""

    def fill(self, count: int, *, partitioned: bool = False) -> None:
        """Make the table, with this many rows of others: ten in a commit, in the order of ``id``."""
        self.create(make_rows(0, 0).schema, ["region"] if partitioned else [])
        for start in range(0, count, _BATCH):
            self.append(make_rows(start, min(start + _BATCH, count)))

    def endpoint(self) -> ConnectEndpoint:
        """The Spark server to use: the embedded one, unless the test class has another."""
        from airflow_abs.testing.local import embedded_endpoint

        return embedded_endpoint()


def make_rows(start: int, stop: int) -> pa.Table:
    """Rows of five columns, numbered: with NULLs, also where tables are partitioned, and texts that are no plain names
    of folders."""
    import pyarrow as pa

    columns = [
        ("id", pa.int64()),
        ("region", pa.string()),
        ("day", pa.date32()),
        ("amount", pa.float64()),
        ("price", pa.decimal128(9, 2)),
    ]
    rows = [
        {
            "id": number,
            "region": _REGIONS[number % len(_REGIONS)],
            "day": None if number % 7 == 0 else date(2026, 1, 1 + number % 7),
            "amount": None if number % 3 == 0 else number / 8,
            "price": Decimal(number) / 4,
        }
        for number in range(start, stop)
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(columns))


def check_rows(found: pa.Table, expected: pa.Table, when: str) -> None:
    """Compare them in whatever order.

    Raises:
        AssertionError: says when they differed, and how.
    """
    from airflow_abs.testing.rows import describe_difference

    difference = describe_difference(found.select(expected.column_names), expected)
    check(difference is None, f"{when}: {difference}")


def check(holds: bool, otherwise: str) -> None:
    """`assert` with a message, in any test runner.

    Raises:
        AssertionError: it does not hold.
    """
    if not holds:
        raise AssertionError(otherwise)


def table_access(endpoint: Callable[[], ConnectEndpoint]) -> TableAccess:
    """What tasks let tables reach: Airflow's connections, and the catalog of a Spark server."""
    from functools import partial

    from airflow_abs.hooks import catalogs
    from airflow_abs.spark.catalog.session_catalog import open_session_catalog

    return catalogs.table_access(partial(open_session_catalog, endpoint))


def stage_file(folder: Path, rows: pa.Table, partition: str = "") -> StagedFile:
    """A file of a sink as a subtask leaves it; `partition` is such as ``__partition_0=vnorth``."""
    import pyarrow.parquet as pq

    from airflow_abs.exchange.publish.record import StagedFile

    digest = hashlib.sha256(repr(rows.to_pylist()).encode()).hexdigest()[:8]
    name = f"t/subtask-0/attempt-1/t.sink/{partition}{'/' if partition else ''}part-{digest}.parquet"
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    return StagedFile(path, name, path.stat().st_size, len(rows))


def as_written(rows: pa.Table, target: TargetTable) -> pa.Table:
    """Rows with the columns that Spark would give to a target's files, ids included; without partitions."""
    import pyarrow as pa

    from airflow_abs.spark.result_rows import arrow_schema

    ids = [field["metadata"].get("parquet.field.id") for field in json.loads(target.schema)["fields"]]
    fields = [
        field if number is None else field.with_metadata({"PARQUET:field_id": str(number)})
        for field, number in zip(arrow_schema(target.schema), ids, strict=True)
    ]
    schema = pa.schema(fields)
    return rows.select(schema.names).cast(schema)


@dataclass(frozen=True, slots=True)
class PlannedTables:
    """A planned job of vertices that are nothing but a source and perhaps a sink, on an open session."""

    planned: JobRun
    session: Any

    def run(self, parallelism: int, name: str = "run") -> LocalRun:
        """Another run of the plan."""
        from airflow_abs.testing.local import run_to_end

        return run_to_end(self.planned.at_parallelism(f"{name}-of-{parallelism}", parallelism), self.session)

    def run_with_loss(self, vertex: str, parallelism: int) -> tuple[LocalRun, int]:
        """Another run, in which the first file that a vertex writes is lost before others read it.

        Returns:
            The run, and how many of the vertex' subtasks had to run again.
        """
        from airflow_abs.exchange.records.manifest import read_manifests
        from airflow_abs.exchange.storage.locations import locate
        from airflow_abs.testing.local import run_to_end

        run = self.planned.at_parallelism(f"lost-of-{parallelism}", parallelism)
        asyncio.run(run.run_region(vertex))
        count, digest = run.decisions[vertex].parallelism, run.reports[vertex][0]["decision"]
        written = read_manifests(run.folder, vertex, count, decision=digest)
        lost = next(file for each in written for result in each.results.values() for file in result.files)
        locate(run.folder.file_path(lost.path)).local.unlink()
        done = run_to_end(run, self.session)
        again = read_manifests(run.folder, vertex, count, decision=digest)
        return done, sum(each.attempt > 1 for each in again)


@contextmanager
def planned_tables(
    endpoint: ConnectEndpoint, folder: Path, vertices: Mapping[str, Mapping[str, Any]]
) -> Iterator[PlannedTables]:
    """Plan a job as Airflow does, for as many runs as are wanted.

    Args:
        endpoint: of a server on this host.
        folder: for the exchange; a new one.
        vertices: arguments of `AdaptiveSparkOperator` by name; `inputs` are names of others, read by rebalance.
    """
    from airflow.sdk import DAG

    from airflow_abs.core.settings import JobOptions
    from airflow_abs.exchange.paths import JobFolder
    from airflow_abs.operators.adaptive_spark import AdaptiveSparkOperator
    from airflow_abs.spark.connect.session import open_session
    from airflow_abs.task_groups.adaptive_spark import AdaptiveSparkJob
    from airflow_abs.testing.job_run import JobRun

    made: dict[str, AdaptiveSparkOperator] = {}
    options = JobOptions(share_tasks=False, chaining=False)
    with (
        DAG("contract") as dag,
        AdaptiveSparkJob("job", exchange=str(folder), durability="always", options=options),
    ):
        for name, arguments in vertices.items():
            inputs = {each: made[each].rebalance() for each in arguments.get("inputs", ())}
            made[name] = AdaptiveSparkOperator(task_id=name, **{**arguments, "inputs": inputs})
    task: Any = dag.get_task("job.plan")
    run = JobFolder(folder, "contract", "planned", "job")
    programs = task._programs(run, table_access(lambda: endpoint))
    planned = JobRun.planned(endpoint, run, task.graph, programs, task.options)
    with open_session(endpoint) as session:
        yield PlannedTables(planned, session)
