"""Sources of text: columns from a bounded sample, the same for all files; nothing is read as NULL unnoticed."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobVertex
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile import source_schema
from airflow_abs.spark.compile.source_schema import resolve_files
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.errors import UserCodeError
from tests.job_runner import JobRun, plan_run, program_of, rows

pytestmark = [pytest.mark.spark, pytest.mark.sample]

TYPED = {"header": "true", "inferSchema": "true"}


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def columns(session: Any, files: Files) -> list[str]:
    found = resolve_files(session, "vertex 'orders'", files, Path)[1]
    return [f"{field.name} {field.dataType.simpleString()}" for field in found.fields]


def plan(server: ConnectEndpoint, tmp_path: Path, files: Files) -> JobRun:
    program = program_of("orders", None, {}, files, Files(str(tmp_path / "out")))
    vertices = [JobVertex("orders", has_source=True, has_sink=True)]
    return plan_run(server, tmp_path / "exchange", vertices, [], [program], target_bytes=1)


def run(server: ConnectEndpoint, tmp_path: Path, files: Files) -> list[Any]:
    job = plan(server, tmp_path, files)
    asyncio.run(job.run_region("orders"))
    job.commit()
    return rows(f"FROM read_parquet('{tmp_path}/out/*.parquet')")


def error_of(server: ConnectEndpoint, tmp_path: Path, files: Files) -> Exception:
    job = plan(server, tmp_path, files)
    failed = asyncio.run(job.run_regions())
    return failed["orders"]


def test_the_first_files_by_name_say_what_the_columns_of_all_are(
    connect_server: ConnectEndpoint, session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_schema, "SAMPLE_FILES", 2)
    lake = write(tmp_path / "lake", a_csv="id,x\n1,2\n", b_csv="id,x\n3,\n", c_csv="id,x\n4,5.5\n")
    csv = Files(str(lake), format="csv", options=TYPED)
    assert columns(session, csv) == ["id int", "x int"]  # c.csv is not looked at
    planned = plan(connect_server, tmp_path, csv).plan.regions[0].sources[0]
    assert planned.columns == ["id", "x"]
    assert planned.files is not None
    assert planned.files.options == {**TYPED, "mode": "FAILFAST", "enforceSchema": "false"}
    assert columns(session, Files(str(lake), format="csv")) == ["_c0 string", "_c1 string"]


def test_columns_of_partition_folders_come_from_all_of_them(session: Any, tmp_path: Path) -> None:
    for name, line in {"part=1/a.json": '{"id": 1}', "part=x/b.json": '{"id": 2, "late": 1}'}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(line)
    assert columns(session, Files(str(tmp_path), format="json")) == ["id bigint", "late bigint", "part string"]


def test_of_a_large_file_the_lines_at_its_beginning_are_read(
    connect_server: ConnectEndpoint, session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_schema, "SAMPLE_BYTES", 15)
    lake = write(tmp_path / "lake", a_csv="id,x\n1,2\n3,4\n5,6.5\n7,8\n")
    csv = Files(str(lake), format="csv", options=TYPED)
    assert columns(session, csv) == ["id int", "x int"]  # 5,6.5 is cut
    lines = write(tmp_path / "lines", a_json='{"x": 1}\n{"x": 2, "y": "a"}\n{"z": 1}\n')
    assert columns(session, Files(str(lines), format="json")) == ["x bigint"]


@pytest.mark.parametrize(("options", "why"), [({"multiLine": True}, "with the option multiline"), ({}, "compressed")])
def test_a_large_file_that_cannot_be_cut_needs_a_schema(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], why: str
) -> None:
    monkeypatch.setattr(source_schema, "SAMPLE_BYTES", 10)
    file = tmp_path / ("a.json" if options else "a.json.gz")
    file.write_bytes(b'[{"x": 1}, {"x": 2}]' if options else gzip.compress(b'{"x": 1}\n' * 9))
    with pytest.raises(JobGraphError) as caught:
        resolve_files(session, "vertex 'orders'", Files(str(tmp_path), format="json", options=options), Path)
    assert str(caught.value) == (
        f"vertex 'orders': its source '{tmp_path}' (json) has no schema, and its first file (file://{file}, "
        f"{file.stat().st_size} B) is too large to infer one from: {why} only a whole file of at most 10 B can be read "
        "for it; give Files(..., schema='...')"
    )


@pytest.mark.parametrize("missing", ["", "nowhere"])
def test_without_files_there_is_nothing_to_infer_from(session: Any, tmp_path: Path, missing: str) -> None:
    with pytest.raises(JobGraphError, match="matches no files to read a schema from; check the path and its date"):
        resolve_files(session, "vertex 'orders'", Files(str(tmp_path / missing), format="csv"), Path)


def test_what_overflows_or_is_malformed_fails_and_is_null_only_if_the_author_says_so(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    lake = write(tmp_path / "lake", a_csv="1,2\n", b_csv="3,99999999999\n")
    given = Files(str(lake), format="csv", schema="id INT, x INT")
    error = error_of(connect_server, tmp_path / "strict", given)
    assert isinstance(error, UserCodeError)
    first, where = str(error).splitlines()[:2]
    assert first == (
        f"file://{lake}/b.csv has a record that does not fit the columns of its source: For input string: "
        "\"99999999999\" (read as [3,null]); correct the file, or give Files(..., schema='...') that it fits, or "
        "options={'mode': 'PERMISSIVE'} to have NULL there"
    )
    assert where.startswith("  in orders[")
    assert where.endswith(f", try 1; sources and their columns: {lake} (id integer, x integer)")
    permissive = Files(str(lake), format="csv", schema="id INT, x INT", options={"mode": "PERMISSIVE"})
    assert run(connect_server, tmp_path / "permissive", permissive) == [(1, 2), (3, None)]


@pytest.mark.parametrize("schema", [None, "id INT, x INT"])
def test_a_file_whose_header_is_in_another_order_fails_and_is_not_mixed_up(
    connect_server: ConnectEndpoint, tmp_path: Path, schema: str | None
) -> None:
    lake = write(tmp_path / "lake", a_csv="id,x\n1,2\n")
    csv = Files(str(lake), format="csv", options=TYPED, schema=schema)
    job = plan(connect_server, tmp_path, csv)
    write(lake, b_csv="x,id\n2,1\n")
    error = asyncio.run(job.run_regions())["orders"]
    assert isinstance(error, UserCodeError)
    assert str(error).startswith(
        f"file://{lake}/b.csv has a header that does not fit the columns of its source: CSV header does not conform to "
        "the schema. Header: x, id Schema: id, x Expected: id but found: x CSV file: "
    )
    assert "correct the file or schema=, or say options={'enforceSchema': 'true'} to match columns by position" in str(
        error
    )


@pytest.mark.parametrize("kind", ["CHAR(3)", "ARRAY<VARCHAR(3)>"])
def test_a_text_of_a_length_is_refused_with_what_to_write(session: Any, tmp_path: Path, kind: str) -> None:
    """Spark itself ends in an internal error."""
    with pytest.raises(JobGraphError) as refused:
        columns(session, Files(str(tmp_path), schema=f"id INT, code {kind}"))
    assert str(refused.value) == (
        f"vertex 'orders': the schema of its source (id INT, code {kind}) has a char or a varchar, but files hold "
        "strings of any length; write STRING instead"
    )


def test_headers_are_passed_over_only_if_the_author_says_so(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    lake = write(tmp_path / "lake", a_csv="key,value\n1,2\n")
    options = {"header": "true", "enforceSchema": "true"}
    job = plan(connect_server, tmp_path, Files(str(lake), format="csv", options=options, schema="id INT, x INT"))
    assert asyncio.run(job.run_regions()) == {}


def test_a_file_is_opened_by_the_name_that_its_storage_knows() -> None:
    named = source_schema._path_in
    assert named("/lake/orders", "file:///lake/orders/a.csv") == "/lake/orders/a.csv"
    assert named("bucket/lake", "s3a://bucket/lake/a.csv") == "bucket/lake/a.csv"
    assert named("box/lake", "abfss://box@account.dfs.core.windows.net/lake/a.csv") == "box/lake/a.csv"
