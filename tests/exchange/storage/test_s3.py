"""What S3 adds to the tests that run on every storage: how many requests, what is refused, which URIs."""

from __future__ import annotations

import io
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from upath import UPath

from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.paths import JobFolder, uri_for_spark
from airflow_abs.exchange.publish.publication import check_overwritten, publish
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.records.deciding import decide_and_store, list_sources
from airflow_abs.exchange.records.manifest import Manifest, bytes_by_subpartition, read_manifests, write_manifest
from airflow_abs.exchange.records.plan import (
    JobPlan,
    PlannedInput,
    PlannedRegion,
    PlannedSink,
    PlannedStep,
)
from airflow_abs.exchange.records.recovery_claim import claim_recovery, list_claims
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.results.measuring import measure_result
from airflow_abs.exchange.runs.cleaning import release_job
from airflow_abs.exchange.runs.run_list import list_runs
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.listing import list_source_files
from airflow_abs.exchange.sources.planned_source import PlannedSource
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import (
    check_writable,
    read_json,
    write_atomic,
    write_json,
)
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.publishing.publication import publish_sink
from tests.exchange.publish.commits import stage
from tests.recorded_runs import OPTIONS
from tests.s3_server import S3Server

pytestmark = pytest.mark.slow


def parquet(subpartitions: list[int]) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"amount": list(range(len(subpartitions))), "__subpartition": pa.array(subpartitions, pa.int32())})
    pq.write_table(table, sink, write_page_index=True)
    return sink.getvalue()


def step(result: str, subpartitions: int = 1) -> PlannedStep:
    return PlannedStep(result, "{}", "parquet", {}, subpartitions, shuffles=False)


@pytest.fixture
def bucket(s3_root: UPath) -> str:
    return str(s3_root.path).partition("/")[0]


@pytest.fixture
def folder(s3_root: UPath) -> JobFolder:
    return JobFolder(s3_root, "daily_revenue", "manual__2026-01-01", "revenue")


def key_of(path: UPath) -> str:
    return str(locate(path).path).partition("/")[2]


def test_a_source_of_a_thousand_files_is_listed_in_one_request_and_two_to_see_that_it_is_there(
    s3: S3Server, s3_root: UPath, bucket: str
) -> None:
    for number in range(1000):
        s3.put(bucket, f"exchange/lake/part-{number:04}", b"x")
    assert len(list_source_files(s3_root / "lake")) == 1000
    assert s3.counts() == {"HEAD": 1, "LIST": 2}
    s3.put(bucket, "exchange/lake/part-1000", b"x")  # one more page
    s3.forget()
    assert len(list_source_files(s3_root / "lake")) == 1001
    assert s3.counts() == {"HEAD": 1, "LIST": 3}


def test_every_footer_is_one_read_and_all_sizes_one_listing(s3: S3Server, folder: JobFolder, bucket: str) -> None:
    path, data = folder.result_path("orders", 0, 1, "orders.whole"), parquet([0, 0, 0])
    for number in range(200):
        s3.put(bucket, key_of(path / f"part-{number:04}.parquet"), data)
    measured = measure_result(folder, path, step("orders.whole"))
    assert (len(measured.files), measured.rows, measured.bytes) == (200, 600, 200 * len(data))
    assert s3.counts() == {"GET": 200, "LIST": 1}


def test_bytes_by_subpartition_of_a_small_file_are_one_read(s3: S3Server, folder: JobFolder, bucket: str) -> None:
    path = folder.result_path("orders", 0, 1, "orders.hash")
    s3.put(bucket, key_of(path / "part-0.parquet"), parquet([2, 2, 5]))
    assert measure_result(folder, path, step("orders.hash", 8)).files[0].first == 2
    assert s3.counts() == {"GET": 1, "LIST": 1}


def test_a_run_of_1001_files_is_cleaned_in_two_requests_and_two_listings(
    s3: S3Server, folder: JobFolder, bucket: str
) -> None:
    write_json(folder.plan_path, {})
    path = folder.result_path("orders", 0, 1, "orders.whole")
    for number in range(1001):
        s3.put(bucket, key_of(path / f"part-{number:04}.parquet"), b"x")
    s3.forget()
    assert release_job(folder).files == 1001
    # two pages before; afterwards one: is anything left that S3's client did not tell?
    assert s3.counts() == {"LIST": 3, "DELETE MANY": 2}
    assert read_json(folder.plan_path) == {}


def test_the_empty_object_that_spark_leaves_for_a_folder_is_cleaned(
    s3: S3Server, folder: JobFolder, bucket: str
) -> None:
    write_json(folder.plan_path, {})
    for index in range(2):
        path = folder.result_path("orders", index, 1, "orders.whole")
        s3.put(bucket, key_of(path) + "/", b"")
        s3.put(bucket, key_of(path / "part-0.parquet"), b"x")
    assert release_job(folder).files == 4
    assert locate(folder.path).fs.find(locate(folder.path).path) == [locate(folder.plan_path).path]


def test_what_the_store_did_not_delete_is_told(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [folder.result_path("orders", 0, 1, "orders.whole") / f"part-{k}" for k in range(3)]
    for path in paths:
        write_atomic(path, b"x")
    monkeypatch.setattr(locate(folder.path).fs, "rm", lambda paths: [])  # S3 says 200, and in it what it refused
    with pytest.raises(ExchangeUnreachableError, match=r"3 files are still there .* check that Airflow may delete"):
        release_job(folder)


def test_recoveries_of_many_subtasks_are_found_in_one_listing(s3: S3Server, folder: JobFolder, bucket: str) -> None:
    for index in range(300):
        s3.put(bucket, key_of(folder.manifest_path("orders", index)), b"{}")
    claim_recovery(folder, "orders", 7, decision="d", owner="a", lost_attempt=1, now=0.0)
    s3.forget()
    assert [claim.index for claim in list_claims(folder)] == [7]
    assert s3.counts() == {"LIST": 1, "GET": 1}


def test_publishing_costs_two_requests_for_a_file_and_a_constant(s3: S3Server, s3_root: UPath) -> None:
    def cost(files: int) -> dict[str, int]:
        staged = stage(s3_root / str(files), [f"row {k}" for k in range(files)])
        s3.forget()
        publish(s3_root / f"t{files}", staged, mode="overwrite", publisher=Publisher("run"))
        return s3.counts()

    few, many = cost(2), cost(12)
    assert {kind: many[kind] - few[kind] for kind in many if many[kind] != few[kind]} == {"HEAD": 10, "COPY": 10}
    assert sum(few.values()) < 4 + 20


def test_an_object_that_stands_for_a_folder_is_nobodys_file_in_a_target(
    s3: S3Server, s3_root: UPath, bucket: str
) -> None:
    target = s3_root / "t"
    for folder in (target, target / "day=1"):
        s3.put(bucket, key_of(folder) + "/", b"")
    check_overwritten(target)
    published = publish(target, stage(s3_root, ["row"]), mode="overwrite", publisher=Publisher("run"))
    assert (published.files, published.foreign_files) == (1, 0)


def test_a_small_file_is_one_request_and_what_others_wrote_meanwhile_is_seen(s3: S3Server, s3_root: UPath) -> None:
    write_json(s3_root / "j" / "a.json", {"a": 1})
    list_source_files(s3_root / "j")  # no listing is kept that would hide what comes later
    other = UPath(str(s3_root), key="k", secret="s", endpoint_url=s3.url, skip_instance_cache=True)
    write_json(other / "j" / "b.json", {"b": 1})
    s3.forget()
    assert read_json(s3_root / "j" / "b.json") == {"b": 1}
    assert s3.counts() == {"GET": 1}


@pytest.mark.sample
def test_the_airflow_side_of_a_run_works_on_s3(s3: S3Server, s3_root: UPath, folder: JobFolder, bucket: str) -> None:
    """Lists sources, writes decisions and manifests, measures what Spark would write, publishes a sink, cleans."""
    opened: list[str] = []

    def open_path(uri: str) -> UPath:
        opened.append(uri)
        return UPath(uri, key="k", secret="s", endpoint_url=s3.url)

    for number in range(4):
        s3.put(bucket, f"lake/orders/ds=1/part-{number}.parquet", b"x" * 900)
    source = PlannedSource("orders.source", "s0", Files(f"s3://{bucket}/lake/orders"), "{}")
    sink = PlannedSink("total", "total.sink", Files(f"s3://{bucket}/mart/revenue"))
    reads = PlannedInput("total.orders", "i0", "orders", "orders.hash", Partitioning.HASH, ("id",))
    plan = JobPlan(
        "plan-1",
        (
            PlannedRegion("orders", ("orders",), (source,), (), (step("orders.hash", 16),), (), None, 16, None),
            PlannedRegion("total", ("total",), (), (reads,), (step("total.sink"),), (sink,), 1, 16, None),
        ),
        OPTIONS,
        2,
        "4.2.0",
    )
    check_writable(folder.path)
    write_json(folder.plan_path, plan.to_json())

    def run(region: str, result: PlannedStep, reports: dict[str, list[dict[str, object]]]) -> list[dict[str, object]]:
        records = RunRecords(folder)
        stored = decide_and_store(records, region, reports, partial(list_sources, records, open_path))
        done: list[dict[str, object]] = []
        for index in range(stored.decision.parallelism):
            path = folder.result_path(region, index, 1, result.result)
            s3.put(bucket, key_of(path / "part-0.parquet"), parquet([0, 3, 3] if result.is_numbered else [0]))
            found = measure_result(folder, path, result)
            write_manifest(folder, Manifest(region, index, 1, stored.digest, 1.0, {result.result: found}))
            sizes = {"bytes": bytes_by_subpartition(found)}
            done.append(
                {
                    "index": index,
                    "subtasks": stored.decision.parallelism,
                    "decision": stored.digest,
                    "results": {result.result: sizes},
                }
            )
        return done

    reports = run("orders", step("orders.hash", 16), {})
    assert len(reports) == 4  # 3,600 bytes over a target of 1,000
    stored = read_json(folder.decision_path("orders"))
    assert stored["files"]["orders.source"][0] == [f"s3a://{bucket}/lake/orders/ds=1/part-0.parquet", 900]
    run("total", step("total.sink"), {"orders": reports})
    access = TableAccess(lambda conn_id: {}, open_path)
    published = publish_sink(RunRecords(folder), "total", sink, access, ())
    assert (published["files"], published["rows"], published["changed"]) == (1, 1, True)
    assert not publish_sink(RunRecords(folder), "total", sink, access, ())["changed"]
    assert len(visible_names(open_path(sink.files.path))) == 1
    assert opened[0] == f"s3://{bucket}/lake/orders"
    assert [region.committed for region in read_run(folder).regions] == [4, 1]
    assert [str(run) for run in list_runs(s3_root)] == ["daily_revenue/manual__2026-01-01/revenue"]
    assert release_job(folder).files == 5 + 5  # data, and what each subtask reads
    assert len(read_manifests(folder, "orders", 4)) == 4


def visible_names(target: UPath) -> list[str]:
    location = locate(target)
    return [name for name in location.fs.find(location.path) if "/part-" in name]


def test_one_setting_serves_airflow_and_spark(s3_root: UPath) -> None:
    assert uri_for_spark(s3_root / "a").startswith("s3a://b-")
    assert Files("s3://minio@lake/a@b/c").uri == "s3a://lake/a@b/c"
    assert Files("s3n://lake/x").uri == Files("s3a://lake/x").uri == "s3a://lake/x"
