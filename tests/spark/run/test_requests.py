"""How much a subtask asks of an object store before it reads: the same however many read beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from upath import UPath

from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import StaleManifestError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import MANIFEST_VERSION, Manifest
from airflow_abs.exchange.records.manifest_index import write_index
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.records.slices import cut_slices, write_slices
from airflow_abs.exchange.results.lost_files import tail_checksum
from airflow_abs.exchange.storage.whole_files import encode_json, write_json
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.inputs import InputCheck, files_read, still_whole
from airflow_abs.spark.run.subtask_spec import SubtaskSpec
from tests.recorded_runs import OPTIONS, MadeRegion, RecordedRun
from tests.s3_server import S3Server

DATA = b"PAR1 rows PAR1"


def put_run(s3: S3Server, root: UPath, made: Path, producers: int, consumers: int) -> RecordedRun:
    """A hash edge between so many subtasks, as it lies on a store after `decide`; no request is counted."""
    regions = [
        MadeRegion("orders", files=(100,) * producers, parallelism=producers),
        MadeRegion("total", inputs={"orders": Partitioning.HASH}, parallelism=consumers),
    ]
    options = replace(OPTIONS, max_parallelism=max(producers, consumers))
    run = RecordedRun(JobFolder(made, "dag", "run", "job"), regions, lambda *_: 10, options)
    run.write_plan()
    run.run("orders")
    run.decide("total")
    run.folder = JobFolder(root, "dag", "run", "job")
    s3.put(*place(run.folder.plan_path), encode_json(run.plan.to_json()))
    for index in range(producers):
        put_subtask(s3, run, index)
    s3.put(*place(run.folder.decision_path("orders")), encode_json(run.stored["orders"].to_json()))
    write_index(RunRecords(run.folder), "total", run.stored["total"].producers)
    write_slices(run.folder, "total", cut_slices(run.stored["total"]))
    s3.forget()
    return run


def put_subtask(s3: S3Server, run: RecordedRun, index: int, attempt: int = 1, data: bytes = DATA) -> None:
    manifest = whole(run.manifests["orders"][index], attempt)
    for file in manifest.results["orders.hash"].files:
        s3.put(*place(run.folder.file_path(file.path)), data)
    path = run.folder.manifest_path("orders", index)
    s3.put(*place(path), encode_json(manifest.to_json(), version=MANIFEST_VERSION))


def whole(manifest: Manifest, attempt: int) -> Manifest:
    """With the sizes and tags of what lies there."""
    from hashlib import md5

    result = manifest.results["orders.hash"]
    files = tuple(
        replace(
            file,
            path=file.path.replace("attempt-1", f"attempt-{attempt}"),
            bytes=len(DATA),
            tail_bytes=4,
            tail_crc=tail_checksum(DATA[-4:]),
            etag=f'"{md5(DATA).hexdigest()}"',  # noqa: S324 - as S3 makes it
        )
        for file in result.files
    )
    return replace(manifest, attempt=attempt, results={"orders.hash": replace(result, files=files)})


def place(path: UPath) -> tuple[str, str]:
    bucket, _, key = str(path).removeprefix("s3://").partition("/")
    return bucket, key


def look(run: RecordedRun, index: int) -> tuple[list[int], list[str]]:
    """What a subtask does before and after it reads: the attempts that it is to read, and what is lost."""
    attempt = SubtaskAttempt("total", index, 1, run.stored["total"].digest)
    spec = SubtaskSpec.load(run.folder, attempt)
    inputs, lost = InputCheck(spec).look()
    if not lost:
        assert still_whole(run.folder, files_read(spec, inputs))
    return [manifest.attempt for manifest in inputs["orders"]], [
        problem for each in lost for problem in each.files.values()
    ]


@pytest.mark.parametrize(
    ("producers", "consumers", "expected"),
    [
        (4, 8, {"GET": 2 + 4, "HEAD": 4 + 4}),  # plan and slice, of each producer its manifest and twice its file
        (8, 8, {"GET": 3, "LIST": 2 + 1}),  # plan, slice and inputs.json; the region twice before it reads, and after
        (64, 8, {"GET": 3, "LIST": 2 + 1}),
        (64, 64, {"GET": 3, "LIST": 2 + 1}),
        pytest.param(256, 256, {"GET": 3, "LIST": 2 + 1}, marks=pytest.mark.slow),  # 512 files: one page
    ],
)
def test_requests_of_a_subtask_do_not_grow_with_the_fan_out(
    s3: S3Server, s3_root: UPath, tmp_path: Path, producers: int, consumers: int, expected: dict[str, int]
) -> None:
    run = put_run(s3, s3_root, tmp_path, producers, consumers)
    for index in (0, consumers - 1):
        s3.forget()
        assert look(run, index) == ([1] * producers, [])
        assert s3.counts() == expected


def test_a_producer_that_ran_again_since_the_decision_is_seen(s3: S3Server, s3_root: UPath, tmp_path: Path) -> None:
    run = put_run(s3, s3_root, tmp_path, 16, 2)
    put_subtask(s3, run, 3, attempt=2)
    assert look(run, 0)[0] == [1, 1, 1, 2, *[1] * 12]
    assert s3.counts() == {"GET": 3 + 1, "LIST": 2 + 1}  # and that manifest


def test_a_producer_of_another_decision_is_refused(s3: S3Server, s3_root: UPath, tmp_path: Path) -> None:
    run = put_run(s3, s3_root, tmp_path, 16, 2)
    run.manifests["orders"][3] = replace(run.manifests["orders"][3], decision="other")
    put_subtask(s3, run, 3)
    with pytest.raises(StaleManifestError, match=r"is of orders\[3\] under decision 'other'"):
        write_index(RunRecords(run.folder), "total", run.stored["total"].producers)
    with pytest.raises(StaleManifestError, match=r"is of orders\[3\] under decision 'other'"):
        look(run, 0)


def test_what_is_altered_or_gone_on_the_store_is_lost(s3: S3Server, s3_root: UPath, tmp_path: Path) -> None:
    run = put_run(s3, s3_root, tmp_path, 16, 2)
    path = run.manifests["orders"][2].results["orders.hash"].files[0].path
    s3.put(*place(run.folder.file_path(path)), DATA[:-4] + b"RAP1")
    gone = run.folder.file_path(run.manifests["orders"][5].results["orders.hash"].files[0].path)
    gone.unlink()
    run.folder.manifest_path("orders", 7).unlink()
    problems = look(run, 0)[1]
    assert problems == ["has no manifest that can be read", "has an altered footer", "is gone"]


def test_an_unreadable_index_costs_requests_and_nothing_else(s3: S3Server, s3_root: UPath, tmp_path: Path) -> None:
    run = put_run(s3, s3_root, tmp_path, 16, 2)
    s3.put(*place(run.folder.index_path("total")), b"{}")
    assert look(run, 0) == ([1] * 16, [])
    assert s3.counts() == {"GET": 3 + 16, "LIST": 1 + 1}


def test_what_a_subtask_parses_of_the_decision_is_its_own(tmp_path: Path) -> None:
    """The decision names 4,000 files; each of 40 subtasks has 100 of them."""
    regions = [MadeRegion("orders", files=(100,) * 4_000, parallelism=40)]
    run = RecordedRun(
        JobFolder(tmp_path, "dag", "run", "job"), regions, lambda *_: 10, replace(OPTIONS, max_parallelism=40)
    )
    run.write_plan()
    run.decide("orders")
    cut = cut_slices(run.stored["orders"])
    assert [len(each.files["orders.source"]) for each in cut] == [100] * 40
    write_slices(run.folder, "orders", cut)
    whole_size = run.folder.decision_path("orders").stat().st_size
    assert max(run.folder.slice_path("orders", index).stat().st_size for index in range(40)) < whole_size / 10
    write_json(run.folder.decision_path("orders"), json.loads("{}"))  # nobody looks there
    spec = SubtaskSpec.load(run.folder, SubtaskAttempt("orders", 7, 1, run.stored["orders"].digest))
    assert spec.reads == cut[7]
