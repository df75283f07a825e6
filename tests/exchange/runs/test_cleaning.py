from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_abs.core.durability.prediction import RunHistory
from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.paths import JobFolder, escape
from airflow_abs.exchange.records.job_history import read_history, remember_run
from airflow_abs.exchange.runs.cleaning import Deleted, delete_expired, find_expired, release_job
from airflow_abs.exchange.runs.root_marker import MARKER_NAME, mark_root
from airflow_abs.exchange.storage.locations import ExchangePath, locate, modified_seconds
from airflow_abs.exchange.storage.whole_files import write_atomic
from tests.exchange.runs.filled_run import PLAN, fill, names_below

METADATA = [
    "attempt-1/step-0.pb",
    "attempt-1/subtask-0/manifest.json",
    "orders/decision.json",
    "orders/step-0.pb",
    "orders/subtask-0/manifest.json",
    "plan.json",
]
SIZE = 31 + len(PLAN)


def age(job: JobFolder, modified: float) -> None:
    for file in Path(str(job.path)).rglob("*"):
        os.utime(file, (modified, modified))


def test_release_deletes_data_and_keeps_what_explains_and_repeats_the_run(job: JobFolder) -> None:
    fill(job)
    # 2 regions with 2 attempts with 2 files of 3 bytes
    assert release_job(job) == Deleted(files=2 * 4, bytes=2 * 12)
    assert names_below(job.path) == METADATA


def test_release_leaves_no_empty_folders(tmp_path: Path) -> None:
    job = JobFolder(tmp_path, "d", "r", "j")
    fill(job)
    release_job(job)
    assert sorted(path.name for path in (tmp_path / "d" / "r" / "j" / "orders").rglob("*")) == [
        "decision.json",
        "manifest.json",
        "step-0.pb",
        "subtask-0",
    ]


def test_release_can_delete_everything(job: JobFolder) -> None:
    fill(job)
    assert release_job(job, keep_metadata=False).files == 14
    assert names_below(job.path) == []
    location = locate(job.path)
    assert not location.fs.exists(location.path)


@pytest.mark.parametrize("keep_metadata", [True, False])
def test_a_second_release_finds_nothing_to_do(job: JobFolder, keep_metadata: bool) -> None:
    fill(job)
    release_job(job, keep_metadata=keep_metadata)
    assert release_job(job, keep_metadata=keep_metadata) == Deleted(0, 0)


def test_a_job_that_never_wrote_is_released(job: JobFolder) -> None:
    assert release_job(job) == Deleted(0, 0)


def test_another_job_of_the_run_is_not_touched(root: ExchangePath) -> None:
    one, other = JobFolder(root, "d", "r", "one"), JobFolder(root, "d", "r", "other")
    fill(one)
    fill(other)
    release_job(one, keep_metadata=False)
    assert len(names_below(other.path)) == 14


def test_a_file_that_another_release_deletes_first_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobFolder(tmp_path, "d", "r", "j")
    fill(job)
    from fsspec.implementations.local import LocalFileSystem

    remove = LocalFileSystem.rm_file

    def remove_twice(self: LocalFileSystem, path: str) -> None:
        remove(self, path)
        remove(self, path)

    monkeypatch.setattr(LocalFileSystem, "rm_file", remove_twice)
    assert release_job(job).files == 8


def test_a_refused_deletion_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobFolder(tmp_path, "d", "r", "j")
    fill(job)
    from fsspec.implementations.local import LocalFileSystem

    def refuse(self: LocalFileSystem, path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LocalFileSystem, "rm_file", refuse)
    with pytest.raises(ExchangeUnreachableError, match=r"/d/r/j: cannot be deleted \(PermissionError: .*run it again"):
        release_job(job)


def test_only_jobs_whose_youngest_file_is_old_are_expired(tmp_path: Path) -> None:
    old, touched, new = (JobFolder(tmp_path, "d", run, "j") for run in ("old", "touched", "new"))
    for job in (old, touched, new):
        fill(job)
        age(job, 1_000.0)
    age(new, 1_950.0)
    os.utime(Path(str(touched.plan_path)), (1_990.0, 1_990.0))
    (found,) = find_expired(tmp_path, older_than_seconds=100.0, now=2_000.0)
    assert (str(found), found.files, found.bytes, found.modified) == ("d/old/j", 14, SIZE, 1_000.0)


def test_expired_jobs_come_oldest_first(tmp_path: Path) -> None:
    for run, modified in (("b", 20.0), ("a", 30.0), ("c", 10.0)):
        job = JobFolder(tmp_path, "d", run, "j")
        fill(job)
        age(job, modified)
    assert [job.run for job in find_expired(tmp_path, 100.0, now=1_000.0)] == ["c", "b", "a"]


def test_a_run_that_is_alive_is_never_expired(tmp_path: Path) -> None:
    run_id = "scheduled__2026-01-01T00:00:00+00:00"
    job = JobFolder(tmp_path, "d", run_id, "j")
    fill(job)
    age(job, 0.0)
    alive = {(escape("d"), escape(run_id))}
    assert find_expired(tmp_path, 1.0, now=1e9, is_alive=lambda dag, run: (dag, run) in alive) == []


def test_expired_jobs_are_deleted_with_their_empty_parents(tmp_path: Path) -> None:
    for dag, run in (("d", "r1"), ("d", "r2"), ("e", "r1")):
        fill(JobFolder(tmp_path, dag, run, "j"))
        age(JobFolder(tmp_path, dag, run, "j"), 10.0 if run == "r1" else 1_999.0)
    deleted = list(delete_expired(find_expired(tmp_path, 100.0, now=2_000.0)))
    assert [(str(job), freed) for job, freed in deleted] == [
        ("d/r1/j", Deleted(14, SIZE)),
        ("e/r1/j", Deleted(14, SIZE)),
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_airflow_abs_exchange", "d"]
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["r2"]


def test_thirty_daily_runs_do_not_grow_the_exchange(tmp_path: Path) -> None:
    """Each is released when it ends, and `gc` keeps a week: what stays is the metadata of seven days, and no data."""
    day, sizes = 24 * 3600.0, []
    for number in range(30):
        now = (number + 1) * day
        job = JobFolder(tmp_path, "daily", f"day {number:02}", "j")
        fill(job)
        release_job(job)
        age(job, now)
        list(delete_expired(find_expired(tmp_path, 7 * day, now)))
        assert len(list((tmp_path / "daily").iterdir())) == min(number + 1, 7)
        sizes.append(sum(path.stat().st_size for path in (tmp_path / "daily").rglob("*") if path.is_file()))
    assert not list(tmp_path.rglob("*.parquet"))
    assert sizes[-1] == sizes[6] == max(sizes)


def test_a_run_that_came_to_life_after_the_search_is_left_alone(tmp_path: Path) -> None:
    job = JobFolder(tmp_path, "d", "r", "j")
    fill(job)
    age(job, 10.0)
    expired = find_expired(tmp_path, 100.0, now=2_000.0)
    assert list(delete_expired(expired, is_alive=lambda dag, run: True)) == []
    write_atomic(job.plan_path, b"written again")
    assert list(delete_expired(expired)) == []
    assert len(names_below(job.path)) == 14


def test_deleting_twice_is_no_error(tmp_path: Path) -> None:
    job = JobFolder(tmp_path, "d", "r", "j")
    fill(job)
    age(job, 10.0)
    expired = find_expired(tmp_path, 100.0, now=2_000.0)
    assert [freed.files for _, freed in [*delete_expired(expired), *delete_expired(expired)]] == [14, 0]


def test_an_object_store_is_searched_and_cleaned_too(root: ExchangePath) -> None:
    job = JobFolder(root, "d", "r", "j")
    fill(job)
    far_future = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
    expired = find_expired(root, 3600.0, now=far_future)
    assert [(str(job), job.files, job.bytes) for job in expired] == [("d/r/j", 14, SIZE)]
    assert [freed.files for _, freed in delete_expired(expired)] == [14]
    assert find_expired(root, 0.0, now=far_future) == []


def test_an_exchange_that_does_not_exist_has_nothing_expired(root: ExchangePath) -> None:
    assert find_expired(root, 0.0, now=1e12) == []


def test_an_exchange_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.local import LocalFileSystem

    def refuse(self: LocalFileSystem, path: str, detail: bool) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LocalFileSystem, "find", refuse)
    with pytest.raises(ExchangeUnreachableError, match=r"exchange .*: cannot be listed \(PermissionError"):
        find_expired(tmp_path, 0.0, now=0.0)


@pytest.mark.parametrize("name", ["notes.txt", "orders/notes.txt", "orders/subtask-0/notes.txt", "x/attempt-1/r/f"])
def test_a_file_that_somebody_put_into_a_runs_folder_stays(root: ExchangePath, name: str) -> None:
    job = JobFolder(root, "d", "r", "j")
    fill(job)
    write_atomic(root / "d" / "r" / "j" / name, b"mine")
    release_job(job)
    list(delete_expired(find_expired(root, 0.0, now=1e12)))
    assert names_below(job.path) == [name]


def test_everything_that_a_run_writes_goes(root: ExchangePath) -> None:
    job = JobFolder(root, "d", "r", "j")
    fill(job)
    for path in (
        job.server_path,
        job.start_path("k") / "events" / "log.inprogress",
        job.path / "probe" / "part-0.parquet",
        job.try_path("orders", 0, 1),
        job.recovery_path("orders", 0, 1001),
        job.result_path("orders", 0, 1, "r", piece=3) / "_temporary" / "0" / "part-0.parquet",
        job.path / ".airflow_abs-probe-00ff",
        job.subtask_path("orders", 0) / ".tmp-12-00ff",
    ):
        write_atomic(path, b"x")
    list(delete_expired(find_expired(root, 0.0, now=1e12)))
    assert names_below(root) == ["_airflow_abs_exchange"]


def test_a_plan_goes_last_so_that_what_is_deleted_in_part_is_found_again(
    root: ExchangePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JobFolder(root, "d", "r", "j")
    fill(job)
    deleted: list[list[str]] = []
    monkeypatch.setattr(
        "airflow_abs.exchange.runs.cleaning.delete_files",
        lambda folder, paths: deleted.append([folder.at(path).relative_to(folder) for path in paths]),
    )
    list(delete_expired(find_expired(root, 0.0, now=1e12)))
    assert [len(deleted[0]), deleted[1]] == [13, ["plan.json"]]


@pytest.mark.parametrize(
    ("info", "seconds"),
    [
        ({"mtime": 5.5}, 5.5),
        ({"LastModified": datetime(1970, 1, 1, 0, 1, tzinfo=UTC)}, 60.0),
        ({"updated": "1970-01-01T00:01:00Z"}, 60.0),
        ({"name": "x"}, None),
    ],
)
def test_each_storage_tells_the_time_in_its_own_way(info: dict[str, object], seconds: float | None) -> None:
    assert modified_seconds(info) == seconds


def test_a_jobs_history_is_no_run_and_outlives_all_of_them(tmp_path: Path) -> None:
    mark_root(tmp_path)
    job = JobFolder(tmp_path, "d", "r", "j")
    fill(job)
    remember_run(job, RunHistory(1.0, (), "r"))
    release_job(job)
    age(job, 1000.0)
    os.utime(str(job.history_path), (1000.0, 1000.0))
    expired = find_expired(tmp_path, 1.0, now=2000.0)
    assert [str(each) for each in expired] == ["d/r/j"]
    assert len(list(delete_expired(expired))) == 1
    assert names_below(tmp_path) == [MARKER_NAME, "d/_history/j.json"]
    assert [run.run_id for run in read_history(JobFolder(tmp_path, "d", "next", "j")).runs] == ["r"]
