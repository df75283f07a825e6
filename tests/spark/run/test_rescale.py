"""Rescale edges on real Spark: whole files of neighbouring producers, compared row for row with DuckDB."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.manifest import AttemptsRead, Manifest, read_manifest
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.storage.whole_files import write_json
from airflow_abs.spark.compile.vertices import VertexProgram
from airflow_abs.spark.errors import RecomputationError
from tests.job_runner import JobRun, plan_run, program_of, rows, run_job

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

KIB = 1024
FILES = 10


def rescaled(producer: str, consumer: str) -> JobEdge:
    return JobEdge(producer, consumer, producer, Partitioning.RESCALE)


def hashed(producer: str, consumer: str, *keys: str) -> JobEdge:
    return JobEdge(producer, consumer, producer, Partitioning.HASH, keys)


def source(name: str, path: Path) -> VertexProgram:
    return program_of(name, None, {}, Files(str(path)))


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten files of unequal size, 55,000 rows; some notes are NULL."""
    folder = tmp_path_factory.mktemp("orders")
    for part in range(FILES):
        start, stop = part * (part + 1) * 500, (part + 1) * (part + 2) * 500
        query = f"""
            SELECT range AS order_id, (hash(range * 7) % 100000)::BIGINT AS cents,
                   CASE WHEN range % 9 > 0 THEN md5(range::VARCHAR) END AS note
            FROM range({start}, {stop})"""
        duckdb.sql(f"COPY ({query}) TO '{folder}/part-{part}.parquet' (FORMAT parquet)")
    return folder


def shorten(orders: Any) -> Any:
    from pyspark.sql import functions as sf

    return orders.where("cents % 5 > 0").withColumn("note", sf.substring("note", 1, 6))


SHORTENED = "SELECT order_id, cents, note[1:6] AS note FROM read_parquet('{}/*.parquet') WHERE cents % 5 > 0"


def copy_of(server: ConnectEndpoint, orders: Path, folder: Path, run: Any = run_job, **options: Any) -> JobRun:
    """Each file of `orders` is a subtask's, and what that writes is distributed by files."""
    made: JobRun = run(
        server,
        folder / "exchange",
        [JobVertex("orders", has_source=True, parallelism=FILES), JobVertex("copy", has_sink=True)],
        [rescaled("orders", "copy")],
        [source("orders", orders), program_of("copy", shorten, {}, sink=Files(str(folder / "out")))],
        **options,
    )
    return made


@pytest.mark.parametrize(
    ("options", "subtasks"),
    [
        pytest.param({}, 1, marks=pytest.mark.sample),
        pytest.param({"target_bytes": 700 * KIB}, 3, marks=pytest.mark.sample),
        ({"min_parallelism": 8}, 8),
    ],
)
def test_the_result_is_duckdbs_at_every_fan_out(
    connect_server: ConnectEndpoint, orders: Path, tmp_path: Path, options: dict[str, Any], subtasks: int
) -> None:
    run = copy_of(connect_server, orders, tmp_path, **options)
    assert run.decisions["copy"].parallelism == subtasks, run.decisions["copy"].describe()
    assert rows(f"SELECT * FROM read_parquet('{tmp_path}/out/*.parquet')") == rows(SHORTENED.format(orders))
    assert [list(report["results"]["orders.whole"]) for report in run.reports["orders"]] == [
        ["bytes", "files", "checksum"]
    ] * FILES


def union(by_key: Any, by_file: Any) -> Any:
    return by_key.unionByName(by_file)


@pytest.mark.sample
def test_one_result_serves_a_rescale_and_a_broadcast_edge_and_a_hash_input_beside_it(
    connect_server: ConnectEndpoint, orders: Path, tmp_path: Path
) -> None:
    run = run_job(
        connect_server,
        tmp_path / "exchange",
        [
            JobVertex("orders", has_source=True, parallelism=4),
            JobVertex("again", has_source=True),
            JobVertex("both", has_sink=True, parallelism=3),
            JobVertex("all", has_sink=True),
        ],
        [
            JobEdge("again", "both", "by_key", Partitioning.HASH, ("order_id",)),
            JobEdge("orders", "both", "by_file", Partitioning.RESCALE),
            JobEdge("orders", "all", "orders", Partitioning.BROADCAST),
        ],
        [
            source("orders", orders),
            source("again", orders),
            program_of("both", union, {}, sink=Files(str(tmp_path / "both"))),
            program_of("all", None, {}, sink=Files(str(tmp_path / "all"))),
        ],
    )
    assert [(step.result, step.by_file) for step in run.plan.region("orders").steps] == [("orders.whole", True)]
    subtasks = run.decisions["both"].subtasks
    assert all(subtask.subpartitions and subtask.files["both.by_file"] for subtask in subtasks)
    read = f"SELECT * FROM read_parquet('{orders}/*.parquet')"
    assert rows(f"SELECT * FROM read_parquet('{tmp_path}/both/*.parquet')") == rows(f"{read} UNION ALL {read}")
    assert rows(f"SELECT * FROM read_parquet('{tmp_path}/all/*.parquet')") == rows(read)


def attempts(run: JobRun, region: str) -> list[int]:
    return [read_manifest(run.folder, region, index).attempt for index in range(len(run.reports[region]))]


def lose_a_file(run: JobRun, region: str, index: int) -> None:
    """The last that the subtask wrote."""
    file = read_manifest(run.folder, region, index).results[f"{region}.whole"].files[-1]
    Path(str(run.folder.file_path(file.path))).unlink()


@pytest.mark.sample
def test_a_lost_file_is_made_again_for_who_reads_it_and_nobody_else_looks(
    connect_server: ConnectEndpoint, orders: Path, tmp_path: Path
) -> None:
    run = copy_of(connect_server, orders, tmp_path, plan_run, min_parallelism=8)
    asyncio.run(run.run_region("orders"))
    asyncio.run(run.run_region("copy"))  # decided, and to have what is compared below
    lose_a_file(run, "orders", 0)
    asyncio.run(run.run_subtask("copy", 7, attempt=2))
    assert attempts(run, "orders") == [1] * FILES
    asyncio.run(run.run_subtask("copy", 0, attempt=2))
    assert attempts(run, "orders") == [1001, *[1] * (FILES - 1)]
    run.commit()
    assert rows(f"SELECT * FROM read_parquet('{tmp_path}/out/*.parquet')") == rows(SHORTENED.format(orders))


def chain_of(server: ConnectEndpoint, orders: Path, folder: Path) -> JobRun:
    """`short` reads by key, and each of its two subtasks writes as many files as `orders` has."""
    return plan_run(
        server,
        folder / "exchange",
        [
            JobVertex("orders", has_source=True, parallelism=FILES),
            JobVertex("short", parallelism=2),
            JobVertex("copy", has_sink=True, parallelism=5),
        ],
        [hashed("orders", "short", "order_id"), rescaled("short", "copy")],
        [
            source("orders", orders),
            program_of("short", shorten, {}),
            program_of("copy", None, {}, sink=Files(str(folder / "out"))),
        ],
    )


def test_a_producer_that_reads_the_exchange_puts_its_rows_into_the_same_files_again(
    connect_server: ConnectEndpoint, orders: Path, tmp_path: Path
) -> None:
    run = chain_of(connect_server, orders, tmp_path)
    for region in ("orders", "short"):
        asyncio.run(run.run_region(region))
    assert [len(report["results"]["short.whole"]["files"]) for report in run.reports["short"]] == [FILES, FILES]
    before = read_manifest(run.folder, "short", 1)
    lose_a_file(run, "short", 1)
    asyncio.run(run.run_region("copy"))
    assert attempts(run, "short") == [1, 1001]
    assert read_manifest(run.folder, "short", 1).read == {"orders": (AttemptsRead(0, FILES, 1),)}
    readers = [read_manifest(run.folder, "copy", index).read["short"] for index in range(5)]
    assert readers[4] == (AttemptsRead(1, 2, 1001),)  # one file is of one producer, and no other is said to be read
    assert readers[0] == (AttemptsRead(0, 1, 1),)
    assert files_of(read_manifest(run.folder, "short", 1)) == files_of(before)
    run.commit()
    assert rows(f"SELECT * FROM read_parquet('{tmp_path}/out/*.parquet')") == rows(SHORTENED.format(orders))


def files_of(manifest: Manifest) -> tuple[str | None, list[int]]:
    result = manifest.results["short.whole"]
    return result.checksum, [file.rows for file in result.files]


def test_the_same_rows_in_other_files_are_refused(
    connect_server: ConnectEndpoint, orders: Path, tmp_path: Path
) -> None:
    run = chain_of(connect_server, orders, tmp_path)
    for region in ("orders", "short"):
        asyncio.run(run.run_region(region))
    asyncio.run(run.run_region("copy"))
    lose_a_file(run, "short", 1)
    # As after a restart with other settings: Spark packs the files that it reads into fewer of its tasks.
    write_json(run.folder.plan_path, replace(run.plan, slots=2).to_json())
    with pytest.raises(
        RecomputationError,
        match=r"short\[1\]: recomputing its lost result short.whole produced different rows than before .* or its rows "
        r"went into other files, which a rescale edge reads one by one",
    ):
        asyncio.run(run.run_subtask("copy", 4, attempt=2))


def count_notes(orders: Any) -> Any:
    return orders.groupBy("note").count()


def test_a_transform_that_needs_all_rows_of_a_key_is_refused(
    connect_server: ConnectEndpoint, orders: Path, tmp_path: Path
) -> None:
    with pytest.raises(JobGraphError, match=r"vertex 'copy' cannot run in parts: .*note"):
        plan_run(
            connect_server,
            tmp_path / "exchange",
            [JobVertex("orders", has_source=True), JobVertex("copy", has_sink=True)],
            [rescaled("orders", "copy")],
            [source("orders", orders), program_of("copy", count_notes, {}, sink=Files(str(tmp_path / "out")))],
            unsplittable="refuse",
        )
