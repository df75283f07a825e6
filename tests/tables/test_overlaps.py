"""What a job reads and writes, compared: paths however they are spelled, and tables by what they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.pruned_by import VertexColumn
from airflow_abs.tables.catalog_table import Table
from airflow_abs.tables.delta_table import DeltaTable
from airflow_abs.tables.iceberg_table import IcebergTable
from airflow_abs.tables.overlaps import (
    DeclaredJob,
    check_overlaps,
    check_read_files,
    check_same_tables,
    check_table_folder,
)
from airflow_abs.tables.postgres_table import PostgresTable


def job(
    sinks: Mapping[str, Any] | None = None,
    sources: Mapping[str, Any] | None = None,
    exchange: object = "/exchange",
    name: str = "j",
) -> DeclaredJob:
    return DeclaredJob(name, exchange, sources or {}, sinks or {})


def refusal(*jobs: DeclaredJob, is_rendered: bool = False) -> str:
    with pytest.raises(JobGraphError) as caught:
        check_overlaps(jobs[0], jobs[1:], is_rendered=is_rendered)
    return str(caught.value)


SAME, NESTED = "are the same", "lie one inside the other"


@pytest.mark.parametrize(
    ("one", "other", "how"),
    [
        ("/mart/a", "file:///mart/a/", SAME),
        ("/mart/a", "file:/mart/./a", SAME),
        ("nested/t", "nested/../nested/t/inner", NESTED),
        ("/mart/a", "/mart//a/ds=2026-01-01", NESTED),
        ("/mart/a", "/mart/a/ds={{ ds }}", NESTED),
        ("s3://conn@mart/a/b", "s3a://mart/a", NESTED),
        ("s3://mart/a", "s3n://other@mart/x/../a//", SAME),
        ("gs://mart/a", "gcs://mart/a", SAME),
        ("hdfs://nn/a", "hdfs://nn:8020/a", SAME),
        ("abfss://conn@box@acc.dfs.core.windows.net/a", "abfs://box/a", SAME),
    ],
)
def test_two_sinks_of_a_job_never_share_a_folder(one: str, other: str, how: str) -> None:
    for first, second in ((one, other), (other, one)):
        message = refusal(job({"x": Files(first), "y": Files(second, mode="append")}))
        assert message == (
            f"the sinks of vertices 'x' ({first}) and 'y' ({second}) {how}; each would replace what the other "
            "publishes: give each sink a folder or a table of its own"
        )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/mart/a", "/mart/ab"),
        ("s3://mart/a", "s3://other/a"),
        ("/mart/a", "s3://mart/a"),
        ("/mart/a/ds={{ ds }}", "/mart/a/ds={{ macros.ds_add(ds, 1) }}"),
        ("/mart/{{ conf.x }}", "/mart/a"),
        ("{{ conf.x }}", "/mart/a"),
        ("abfss://box@one.dfs.core.windows.net/a", "abfss://box@two.dfs.core.windows.net/a"),
        ("hdfs://nn:8020/a", "hdfs://nn:9000/a"),
    ],
)
def test_sinks_beside_each_other_and_such_as_nobody_knows_yet_are_left_alone(one: str, other: str) -> None:
    check_overlaps(job({"x": Files(one), "y": Files(other)}))


def test_links_of_the_local_file_system_are_followed_once_the_templates_are_rendered(tmp_path: Path) -> None:
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    sinks = {"x": Files(str(tmp_path / "real")), "y": Files(str(tmp_path / "link" / "in"))}
    check_overlaps(job(sinks))
    assert NESTED in refusal(job(sinks), is_rendered=True)
    source = {"y": Files(f"{tmp_path}/link/in")}
    assert "lies inside what vertex 'y'" in refusal(job({"x": sinks["x"]}, source), is_rendered=True)
    check_overlaps(job({"x": sinks["x"]}, source, exchange=tmp_path / "real"), is_rendered=False)
    assert "the exchange" in refusal(job({"x": sinks["x"]}, exchange=f"{tmp_path}/link/x"), is_rendered=True)


def met(sink: Files, source: Any) -> str:
    return (
        f"the sink of vertex 'out' ({sink.path}) is, contains or lies inside what vertex 'in' ({source.path}) reads: "
        "the run would delete its input, or read its own output when it is repeated. Publish to a folder "
        "beside it, or to a partition ('.../ds={{ ds }}') and read others ('.../ds={{ macros.ds_add(ds, -1) }}')"
    )


@pytest.mark.parametrize(
    "source",
    [
        Files("/mart/t"),
        Files("file:///mart/x/../t/"),
        Files("/mart/t/day=2026-01-01"),
        Files("/mart/t/day={{ ds }}"),
        Files("/mart/*/day=2026-01-01"),
        Files("/mart/*"),
        Files("/mart/{s,t}/part.parquet"),
        Files("/mart"),
        DeltaTable("/mart/t/delta", version=3),
    ],
    ids=lambda source: source.path,
)
def test_a_sink_that_replaces_the_folder_of_a_source_is_refused(source: Any) -> None:
    sink = Files("/mart/t")
    assert refusal(job({"out": sink}, {"in": source})) == met(sink, source)


@pytest.mark.parametrize(
    ("sink", "source"),
    [
        (Files("/mart/t", mode="append"), Files("/mart/t")),
        (Files("/mart/t", mode="append"), Files("/mart/t", incremental=True)),
        (Files("/mart/t", mode="append"), Files("/mart/t/*.parquet")),
        (Files("/mart/t", mode="append"), Files("/mart/*/part-*")),
        (Files("/mart/t/day=2026-01-02", mode="append"), Files("/mart/t/*/*.parquet")),
        (Files("/mart/t/day=2026-01-02", mode="append"), Files("/mart/t")),
        (Files("/mart/t/day=2026-01-02"), Files("/mart/t")),
        (Files("/mart/t/day={{ ds }}"), Files("/mart/t")),
        (Files("/mart/t/day={{ ds }}"), Files("/mart/*")),
        (Files("/mart/t/day=2026-01-02"), Files("/mart/t/day=*")),
        (Files("/mart/t", mode="overwrite_partitions", partition_by=["day"]), Files("/mart/t")),
    ],
    ids=repr,
)
def test_a_repeated_run_never_reads_what_it_published_itself(sink: Files, source: Files) -> None:
    assert refusal(job({"out": sink}, {"in": source})) == met(sink, source)


@pytest.mark.parametrize(
    ("sink", "source"),
    [
        (Files("/mart/t/day=2026-01-02"), Files("/mart/t/day=2026-01-01")),
        (Files("/mart/t/day={{ ds }}"), Files("/mart/t/day={{ macros.ds_add(ds, -1) }}")),
        (Files("/mart/t/day=2026-01-02"), Files("/mart/t", prune={"day": VertexColumn("dates", "d")})),
        (Files("/mart/t/day=2026-01-02"), Files("/mart/t/day=2025*")),
        (Files("/mart/t", mode="overwrite_partitions", partition_by=["day"]), Files("/mart/t/day=2026-01-01")),
        (Files("/mart/t", mode="append"), Files("/mart/t/raw-*.parquet")),
        (Files("/mart/t", mode="append"), Files("/mart/t/day=2026-01-01")),
    ],
    ids=repr,
)
def test_one_partition_may_be_made_of_others(sink: Files, source: Files) -> None:
    check_overlaps(job({"out": sink}, {"in": source}))


@pytest.mark.parametrize("mode", ["overwrite", "append"])
@pytest.mark.parametrize("path", ["/data", "/data/exchange", "/", "file:/data/exchange/", "/data/exchange/x"])
def test_a_sink_is_never_in_the_exchange_nor_around_it(path: str, mode: Any) -> None:
    message = refusal(job({"out": Files(path, mode=mode)}, exchange="file:///data/exchange"))
    assert message == (
        f"the sink of vertex 'out' ({path}) is, contains or lies inside the exchange (file:///data/exchange), whose "
        "files belong to runs that are under way; give the sink a folder of its own"
    )
    assert "the exchange" in refusal(job({"out": Files(path)}), job(exchange="/data/exchange", name="other"))
    check_overlaps(job({"out": Files("/data/mart")}, exchange="/data/exchange"))
    check_overlaps(job({"out": Files("/data")}, exchange="{{ var.value.exchange }}"))


PRUNED = {"day": VertexColumn("dates", "d")}


@pytest.mark.parametrize(
    ("sink", "source"),
    [
        (IcebergTable("lake.a.t", mode="overwrite"), IcebergTable("lake.a.t")),
        (IcebergTable("lake.a.t", mode="overwrite"), IcebergTable("lake.a.t", where="day = '2026-01-01'")),
        (IcebergTable("lake.a.t", mode="overwrite_partitions"), IcebergTable("lake.a.t")),
        (DeltaTable("/lake/t", mode="overwrite"), DeltaTable("file:///lake/t/")),
        (Table("a.t", mode="overwrite"), Table("a.t")),
        (PostgresTable("db", "a.t", mode="overwrite"), PostgresTable("db", "a.t")),
        (PostgresTable("db", "a.t", mode="overwrite", where="day = 'x'"), PostgresTable("db", "a.t")),
        (IcebergTable("lake.a.t", mode="append"), IcebergTable("lake.a.t")),
        (PostgresTable("db", "a.t"), PostgresTable("db", "a.t")),
        # a template that leaves nothing means the newest version
        (DeltaTable("/lake/t", mode="overwrite"), DeltaTable("/lake/t", version="")),
        (IcebergTable("lake.a.t", mode="overwrite"), IcebergTable("lake.a.t", snapshot="None")),
    ],
    ids=repr,
)
def test_a_table_is_not_made_of_itself(sink: Any, source: Any) -> None:
    message = refusal(job({"out": sink}, {"in": source}))
    assert "is the table that vertex 'in'" in message
    assert message.endswith(
        "reads: a repeated run would read its own output. Read a version that you name (snapshot= or "
        "version=), or rows that the run does not publish (where= of the source), or publish to another table"
    )


@pytest.mark.parametrize(
    ("sink", "source"),
    [
        (IcebergTable("lake.a.t", mode="append"), IcebergTable("lake.a.t", where="day = 'x'")),
        (IcebergTable("lake.a.t", mode="overwrite"), IcebergTable("lake.a.t", snapshot="{{ params.snapshot }}")),
        (IcebergTable("lake.a.t", mode="overwrite"), IcebergTable("lake.a.t", conn_id="test")),
        (IcebergTable("lake.a.t", mode="overwrite_partitions"), IcebergTable("lake.a.t", where="day = 'x'")),
        (IcebergTable("lake.a.t", mode="overwrite_partitions"), IcebergTable("lake.a.t", prune=PRUNED)),
        (IcebergTable("lake.a.t", mode="overwrite"), Table("a.t")),
        (DeltaTable("/lake/t", mode="overwrite"), DeltaTable("/lake/t", version=0)),
        (PostgresTable("db", "a.t", mode="overwrite"), PostgresTable("other", "a.t")),
        (PostgresTable("db", "a.t", mode="overwrite"), PostgresTable("db", query="SELECT 1")),
        (PostgresTable("db", "a.t", mode="overwrite", where="x"), PostgresTable("db", "a.t", where="y")),
    ],
    ids=repr,
)
def test_a_table_may_be_made_of_its_other_rows_or_of_a_named_version(sink: Any, source: Any) -> None:
    check_overlaps(job({"out": sink}, {"in": source}))


def ids(*named: str) -> frozenset[str]:
    return frozenset(named)


def test_the_catalogs_id_tells_one_table_under_two_names() -> None:
    declared = job(
        {"out": Table("a.t", mode="overwrite"), "more": Table("a.u")},
        {"in": Table("other.a.t"), "none": Table("a.v")},
    )
    check_overlaps(declared)
    check_same_tables(declared, {"out": ids("1"), "more": ids("2")}, {"in": ids("3"), "none": ids()})
    with pytest.raises(JobGraphError, match=r"of vertex 'out' \(a.t\) is the table that vertex 'in' \(other"):
        check_same_tables(declared, {"out": ids("1"), "more": ids()}, {"in": ids("1", "4"), "none": ids()})


@pytest.mark.parametrize("path", ["/warehouse/t", "/warehouse", "file:/warehouse/t/../t"])
def test_the_folder_of_a_table_is_known_by_the_files_that_are_read(path: str) -> None:
    read = {"in": ["file:///warehouse/t/a.parquet", "file:///warehouse/t/b.parquet"]}
    declared = job({"out": Files(path)}, {"in": Table("a.t")})
    check_overlaps(declared)
    with pytest.raises(JobGraphError, match=r"'out' \(.*\) is, contains or lies inside what vertex 'in' \(a.t\) reads"):
        check_read_files(declared, read)
    check_read_files(job({"out": Files("/warehouse/u")}, {"in": Table("a.t")}), read)
    check_read_files(job({"out": Table("a.u")}, {"in": Table("a.t")}), read)


@pytest.mark.parametrize("path", ["/lake/t/*.parquet", "/lake/t/day=1", "/lake", "file:/lake/u/../t"])
def test_files_of_a_table_are_not_read_behind_its_back_by_who_publishes_to_it(path: str) -> None:
    declared = job({"out": DeltaTable("/lake/t")}, {"in": Files(path)})
    with pytest.raises(
        JobGraphError, match=r"'out' \(/lake/t\) is a table whose files lie in /lake/t, and vertex 'in' "
    ):
        check_table_folder(declared, "out", "/lake/t", {})
    check_table_folder(declared, "out", "/other/t", {})
    check_table_folder(declared, "out", "", {})


@pytest.mark.parametrize("path", ["/wh/t", "/wh", "/wh/t/day=1"])
def test_no_sink_publishes_files_among_those_of_a_table(path: str) -> None:
    declared = job({"out": Table("a.t"), "files": Files(path, replace_foreign=True)})
    with pytest.raises(
        JobGraphError, match=r"of vertices 'out' \(a.t\) and 'files' \(.*\) both publish to file:///wh/t;"
    ):
        check_table_folder(declared, "out", "file:///wh/t", {})
    check_table_folder(declared, "out", "file:///elsewhere", {})


def test_two_tables_in_one_folder_are_not_read_and_written_by_one_job() -> None:
    declared = job({"out": Table("a.t")}, {"in": Table("a.u")})
    with pytest.raises(JobGraphError, match="a repeated run would read its own output"):
        check_table_folder(declared, "out", "file:///wh/t", {"in": ["file:/wh/t/day=1/a.parquet"]})
    check_table_folder(declared, "out", "file:///wh/t", {"in": ["file:/wh/u/day=1/a.parquet"]})
    check_table_folder(declared, "out", "file:///wh/t", {})  # it is the same table, which its id tells


def test_two_jobs_of_a_dag_may_add_to_one_place_but_not_replace_it() -> None:
    added, replaced = Files("/mart/t", mode="append"), Files("/mart/t")
    partitions = Files("/mart/t", mode="overwrite_partitions", partition_by=["day"])
    check_overlaps(job({"x": added}), [job({"y": partitions}, name="other")])
    check_overlaps(job({"x": replaced}), [job({}, {"y": replaced}, name="other")])  # the next step
    assert "and 'y' of job 'other' (/mart/t) are the same" in refusal(
        job({"x": added}), job({"y": replaced}, name="other")
    )
    assert NESTED in refusal(job({"x": added}), job({"y": Files("/mart/t/x", mode="append")}, name="other"))
    tables = IcebergTable("lake.a.t", mode="overwrite"), IcebergTable("lake.a.t")
    assert SAME in refusal(job({"x": tables[0]}), job({"y": tables[1]}, name="other"))
    of_spark = Table("a.t", mode="overwrite"), Table("spark_catalog.A.`T`")
    assert SAME in refusal(job({"x": of_spark[0]}), job({"y": of_spark[1]}, name="other"))


def test_a_kind_of_table_that_is_declared_by_its_path_lies_there() -> None:
    @dataclass(frozen=True)
    class Lance:
        path: str
        mode: str = "append"

    told = refusal(job(sinks={"a": Files("/mart/sales"), "b": Lance("/mart/sales/by_day")}))
    assert NESTED in told
    assert "'b' (/mart/sales/by_day)" in told
