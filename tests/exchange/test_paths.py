from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from upath import UPath

from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.paths import JobFolder, escape, is_landed, unescape, uri_for_spark

ids = st.text(max_size=400)


@given(ids)
@example("")
@example("..")
@example("a/../../b")
@example("_temporary")
@example("ds=2026-01-01")
@example("\x00")
@example("~")
@example("é" * 150)
def test_an_escaped_name_is_short_plain_visible_and_stays_in_its_folder(name: str) -> None:
    escaped = escape(name)
    assert re.fullmatch(r"[A-Za-z0-9~-][A-Za-z0-9._~-]*", escaped)
    assert 1 <= len(escaped.encode()) <= 200
    assert os.path.normpath(f"/root/{escaped}") == f"/root/{escaped}"


@given(ids, ids)
@example("a" * 250, "a" * 251)
@example("", "~")
@example("~7E", "~")
def test_different_ids_have_different_names(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@given(st.text(max_size=60).filter(lambda text: len(escape(text)) < 194))
def test_a_name_that_was_not_shortened_gives_its_id_back(name: str) -> None:
    assert unescape(escape(name)) == name


def test_a_run_id_of_airflow_is_readable_in_its_name() -> None:
    assert escape("scheduled__2026-01-01T00:00:00+00:00") == "scheduled__2026-01-01T00~3A00~3A00~2B00~3A00"


def test_a_shortened_name_cannot_be_turned_back() -> None:
    with pytest.raises(ValueError, match="is a shortened name: its id was over 200 bytes"):
        unescape(escape("x" * 201))


@pytest.mark.parametrize("name", ["a/b", "_a", "~ZZ", "~61", "~~", ""])
def test_a_name_that_escape_never_gives_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not an escaped name|is a shortened name"):
        unescape(name)


def test_the_layout_is_the_documented_one(tmp_path: Path) -> None:
    job = JobFolder(tmp_path, "d", "r", "outer.revenue")
    folder = tmp_path / "d" / "r" / "outer.revenue"
    assert job.path == folder
    assert job.plan_path == folder / "plan.json"
    assert job.region_path("orders") == folder / "orders"
    assert job.step_path("orders", 2) == folder / "orders" / "step-2.pb"
    assert job.decision_path("orders") == folder / "orders" / "decision.json"
    assert job.subtask_path("orders", 3) == folder / "orders" / "subtask-3"
    assert job.manifest_path("orders", 3) == folder / "orders" / "subtask-3" / "manifest.json"
    assert job.attempt_path("orders", 3, 1) == folder / "orders" / "subtask-3" / "attempt-1"
    assert job.result_path("orders", 3, 1, "orders.hash-1a") == (
        folder / "orders" / "subtask-3" / "attempt-1" / "orders.hash-1a"
    )


def test_a_vertex_may_be_called_like_a_file_of_the_layout(tmp_path: Path) -> None:
    job = JobFolder(tmp_path, "d", "r", "j")
    names = ["plan.json", "server.json", "probe", "~70lan.json", "plan"]
    folders = [job.region_path(name).name for name in names]
    assert folders == ["~70lan.json", "~73erver.json", "~70robe", "~7E70lan.json", "plan"]


@given(ids, ids, ids, ids, ids)
def test_no_id_leads_out_of_the_exchange(dag: str, run: str, group: str, region: str, result: str) -> None:
    path = JobFolder(Path("/exchange"), dag, run, group).result_path(region, 0, 1, result)
    assert isinstance(path, Path)
    assert os.path.normpath(path) == str(path)
    assert path.parts[:2] == ("/", "exchange")
    assert len(path.parts) == 9


def test_a_file_is_named_relative_to_its_job_and_found_again(job: JobFolder) -> None:
    path = job.result_path("orders", 0, 1, "orders.hash-1a") / "part-0.parquet"
    relative = job.relative(path)
    assert relative == "orders/subtask-0/attempt-1/orders.hash-1a/part-0.parquet"
    assert str(job.file_path(relative)) == str(path)


@pytest.mark.parametrize("relative", ["", "/etc/passwd", "../x", "a/../../x", "a\\..\\x", "a\0"])
def test_a_manifest_cannot_name_a_file_outside_its_job(relative: str) -> None:
    with pytest.raises(DamagedFileError, match="expected a path below the job folder"):
        JobFolder(Path("/exchange"), "d", "r", "j").file_path(relative)


@pytest.mark.parametrize("index", [-1, True, "0"])
def test_an_index_is_a_number_from_0(index: object) -> None:
    with pytest.raises(ValueError, match="index: expected an int of at least 0"):
        JobFolder(Path("/exchange"), "d", "r", "j").subtask_path("orders", index)  # type: ignore[arg-type]


def test_spark_gets_local_paths_unescaped_because_hadoop_does_not_decode_them() -> None:
    assert uri_for_spark(Path("/data/a b%20[c]")) == "file:///data/a b%20[c]"
    assert uri_for_spark(UPath("file:///data/a b")) == "file:///data/a b"


def test_spark_gets_object_store_paths_as_they_are() -> None:
    assert uri_for_spark(UPath("memory://bucket/a/b") / "c") == "memory://bucket/a/b/c"


def test_spark_does_not_get_the_connection_id_of_airflow() -> None:
    class WithConnection:
        """What `ObjectStoragePath` adds to a UPath: its connection id, also in the text."""

        conn_id = "aws_default"
        fs = UPath("memory://bucket").fs
        path = "/bucket/a"

        def __str__(self) -> str:
            return "memory://aws_default@bucket/a"

    assert uri_for_spark(WithConnection()) == "memory://bucket/a"  # type: ignore[arg-type]


def test_a_relative_root_becomes_absolute_for_spark() -> None:
    assert uri_for_spark(Path("exchange")) == f"file://{Path.cwd()}/exchange"


def test_a_copy_that_plan_made_is_told_by_its_folder() -> None:
    landed = JobFolder(Path("/exchange"), "dag", "run", "job").landed_path("a b", "key")
    assert str(landed) == "/exchange/dag/run/job/_landed-a~20b/key"
    assert is_landed(f"file://{landed}/part-0.parquet")
    assert not is_landed("file:///exchange/dag/run/job/t/_landed-file")
