"""What S3 adds to the tests that run on every storage: how many requests, what is refused, which URIs."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from upath import UPath

from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import ExchangeError, ExchangeUnreachableError
from airflow_abs.exchange.paths import JobFolder, uri_for_spark
from airflow_abs.exchange.publish.publication import publish, read_commit
from airflow_abs.exchange.publish.sinks import publish_sink
from airflow_abs.exchange.records.decisions import decide_and_store
from airflow_abs.exchange.records.manifest import Manifest, bytes_by_subpartition, read_manifests, write_manifest
from airflow_abs.exchange.records.plan import (
    JobPlan,
    PlannedInput,
    PlannedRegion,
    PlannedSink,
    PlannedSource,
    PlannedStep,
)
from airflow_abs.exchange.records.recovery_claim import claim_recovery, list_claims
from airflow_abs.exchange.results.measuring import measure_result
from airflow_abs.exchange.runs.cleaning import release_job
from airflow_abs.exchange.runs.run_list import list_runs
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.listing import list_source_files
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import (
    check_writable,
    create_exclusively,
    read_bytes,
    read_json,
    write_atomic,
    write_json,
)
from tests.exchange.publish.commits import stage, visible
from tests.recorded_runs import OPTIONS
from tests.s3_server import S3Server


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
        publish(s3_root / f"t{files}", staged, mode="overwrite", identity="run")
        return s3.counts()

    few, many = cost(2), cost(12)
    assert {kind: many[kind] - few[kind] for kind in many if many[kind] != few[kind]} == {"HEAD": 10, "COPY": 10}
    assert sum(few.values()) < 4 + 20


def test_a_small_file_is_one_request_and_what_others_wrote_meanwhile_is_seen(s3: S3Server, s3_root: UPath) -> None:
    write_json(s3_root / "j" / "a.json", {"a": 1})
    list_source_files(s3_root / "j")  # no listing is kept that would hide what comes later
    other = UPath(str(s3_root), key="k", secret="s", endpoint_url=s3.url, skip_instance_cache=True)
    write_json(other / "j" / "b.json", {"b": 1})
    s3.forget()
    assert read_json(s3_root / "j" / "b.json") == {"b": 1}
    assert s3.counts() == {"GET": 1}


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
        stored = decide_and_store(folder, plan, region, reports, open_path)
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
    published = publish_sink(folder, "total", sink, open_path)
    assert (published["files"], published["rows"], published["changed"]) == (1, 1, True)
    assert not publish_sink(folder, "total", sink, open_path)["changed"]
    assert len(visible_names(open_path(sink.files.path))) == 1
    assert opened[0] == f"s3://{bucket}/lake/orders"
    assert [region.committed for region in read_run(folder).regions] == [4, 1]
    assert [str(run) for run in list_runs(s3_root)] == ["daily_revenue/manual__2026-01-01/revenue"]
    assert release_job(folder).files == 5
    assert len(read_manifests(folder, "orders", 4)) == 4


def visible_names(target: UPath) -> list[str]:
    location = locate(target)
    return [name for name in location.fs.find(location.path) if "/part-" in name]


def test_one_setting_serves_airflow_and_spark(s3_root: UPath) -> None:
    assert uri_for_spark(s3_root / "a").startswith("s3a://b-")
    assert Files("s3://minio@lake/a@b/c").uri == "s3a://lake/a@b/c"
    assert Files("s3n://lake/x").uri == Files("s3a://lake/x").uri == "s3a://lake/x"


def test_a_storage_that_is_busy_for_a_moment_is_asked_again(s3: S3Server, s3_root: UPath) -> None:
    everything = ["LIST", "GET", "HEAD", "PUT", "COPY", "DELETE", "DELETE MANY"]
    s3.answer(503, "SlowDown", everything, times=1)
    with ThreadPoolExecutor() as pool:  # side by side: each waits for its client's pause
        written = pool.submit(write_atomic, s3_root / "a", b"1")
        created = pool.submit(create_exclusively, s3_root / "b", b"2")
        staged = pool.submit(stage, s3_root, ["row"])
        written.result()
        assert created.result()
        read = pool.submit(read_bytes, s3_root / "a")
        listed = pool.submit(list_source_files, s3_root)
        publish(s3_root / "t", staged.result(), mode="append", identity="run")
        assert (read.result(), len(listed.result())) == (b"1", 2)
    assert visible(s3_root / "t") == ["row"]


def test_a_storage_that_stays_busy_is_told_with_the_path_and_what_to_do(s3: S3Server, s3_root: UPath) -> None:
    impatient = UPath(
        str(s3_root), key="k", secret="s", endpoint_url=s3.url, config_kwargs={"retries": {"total_max_attempts": 1}}
    )
    staged = stage(impatient, ["row"])
    s3.answer(503, "SlowDown", ["LIST", "GET", "PUT", "COPY"], times=None)
    told = r"answers 503 \(too many requests\), also after all tries .*run it again later, or let fewer subtasks run"

    def tell(name: str) -> str:
        with pytest.raises(ExchangeError, match=told) as caught:
            {
                "write": lambda: write_atomic(impatient / "a", b""),
                "create": lambda: create_exclusively(impatient / "a", b""),
                "read": lambda: read_bytes(impatient / "a"),
                "list": lambda: list_source_files(impatient),
                "publish": lambda: publish(impatient / "t", staged, mode="append", identity="run"),
            }[name]()
        assert caught.value.restartable
        return str(caught.value)

    names = ["write", "create", "read", "list", "publish"]
    with ThreadPoolExecutor() as pool:
        messages = dict(zip(names, pool.map(tell, names), strict=True))
    where = str(s3_root)
    assert {name: message.partition(": the storage")[0] for name, message in messages.items()} == {
        "write": f"{where}/a",
        "create": f"{where}/a",
        "read": f"{where}/a",
        "list": f"source {where}",
        "publish": f"sink {where}/t",
    }


@pytest.mark.parametrize(("status", "code"), [(409, "ConditionalRequestConflict"), (503, "SlowDown")])
def test_an_exclusive_put_that_meets_another_is_sent_again(
    s3: S3Server, s3_root: UPath, status: int, code: str
) -> None:
    s3.answer(status, code, ["PUT"], times=2)
    assert create_exclusively(s3_root / "claim", b"mine")
    assert not create_exclusively(s3_root / "claim", b"other")
    assert read_bytes(s3_root / "claim") == b"mine"


def test_a_store_that_says_412_without_a_detail_is_understood(s3: S3Server, s3_root: UPath) -> None:
    s3.answer(412, "PreconditionFailed", ["PUT"], times=None)
    assert not create_exclusively(s3_root / "claim", b"mine")


def test_a_store_without_conditional_writes_is_named(s3: S3Server, s3_root: UPath) -> None:
    s3.answer(501, "NotImplemented", ["PUT"], times=None)
    with pytest.raises(ExchangeUnreachableError, match=r"claim: cannot be created .* takes conditional writes"):
        create_exclusively(s3_root / "claim", b"mine")


def test_a_store_that_nobody_runs_is_named(s3_root: UPath) -> None:
    nowhere = UPath(
        str(s3_root),
        key="k",
        secret="s",
        endpoint_url="http://127.0.0.1:9",
        config_kwargs={"retries": {"total_max_attempts": 1}},
    )
    with pytest.raises(ExchangeUnreachableError, match=r"a: cannot be read \(EndpointConnectionError: .*check that"):
        read_bytes(nowhere / "a")
    assert read_commit(s3_root / "t") is None
