"""A folder that a stream writes holds what its log names, whatever else lies there."""

from __future__ import annotations

import json

import pytest

from airflow_abs.exchange.errors import DamagedFileError, SourceNotFoundError
from airflow_abs.exchange.paths import uri_for_spark
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.listing import list_source_files
from airflow_abs.exchange.sources.splits import list_splits
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import write_atomic


def below(root: ExchangePath, name: str) -> ExchangePath:
    for part in name.split("/"):
        root = root / part
    return root


def write_batch(root: ExchangePath, batch: str, *names: str, put: bool = True, size: int = 1) -> None:
    """A batch with files of one byte each; `batch` is its number, or that of a compact one."""
    lines = ["v1"]
    for name in names:
        if put:
            write_atomic(below(root, name), b"x")
        uri = f"{uri_for_spark(root)}/{name.replace('%', '%25')}"
        lines.append(json.dumps({"path": uri, "size": size, "isDir": False, "modificationTime": 1, "action": "add"}))
    write_atomic(below(root, f"_spark_metadata/{batch}"), "\n".join(lines).encode())


def listed(root: ExchangePath, **options: bool) -> list[str]:
    found = list_source_files(root, **options)  # type: ignore[arg-type]
    return [file.path.removeprefix(f"{uri_for_spark(root)}/") for file in found]


def test_what_a_batch_left_behind_that_failed_is_not_listed(root: ExchangePath) -> None:
    write_batch(root, "0", "a.parquet")
    write_atomic(root / "left-behind.parquet", b"x")
    write_batch(root, "1", "b.parquet", "c.parquet")
    assert listed(root) == ["a.parquet", "b.parquet", "c.parquet"]


def test_partitions_and_names_that_a_uri_escapes(root: ExchangePath) -> None:
    write_batch(root, "0", "at=00%3A15/a.parquet", "at=b/b.parquet")
    write_atomic(below(root, "at=b/left-behind.parquet"), b"x")
    assert listed(root) == ["at=00%3A15/a.parquet", "at=b/b.parquet"]


def test_a_compact_entry_holds_all_before_it(root: ExchangePath) -> None:
    for batch in range(9):
        write_batch(root, str(batch), f"{batch}.parquet")
    write_batch(root, "9.compact", *(f"{batch}.parquet" for batch in range(10)))
    write_batch(root, "10", "10.parquet")
    (locate(root).fs).rm(locate(below(root, "_spark_metadata/3")).path)  # Spark deletes them some time later
    assert listed(root) == sorted(f"{batch}.parquet" for batch in range(11))


def test_no_batch_is_no_file(root: ExchangePath) -> None:
    write_atomic(below(root, "_spark_metadata/.0.crc"), b"x")
    write_atomic(root / "left-behind.parquet", b"x")
    assert listed(root) == []
    write_batch(root, "0", "empty.parquet", put=False, size=0)
    assert listed(root) == []


def test_a_glob_reads_all_that_is_there(root: ExchangePath) -> None:
    write_batch(root, "0", "a.parquet")
    write_atomic(root / "b.parquet", b"x")
    assert [file.path.rpartition("/")[2] for file in list_source_files(root / "*.parquet")] == [
        "a.parquet",
        "b.parquet",
    ]


def test_a_file_that_is_gone_is_an_error_unless_it_may_be(root: ExchangePath) -> None:
    write_batch(root, "0", "a.parquet", "b.parquet")
    locate(root).fs.rm(locate(root / "a.parquet").path)
    with pytest.raises(SourceNotFoundError) as caught:
        listed(root)
    assert str(caught.value) == (
        f"source {locate(root)}: 1 file of 2 that a stream wrote there is gone (such as a.parquet), according to its "
        f"log _spark_metadata; put them back, or read what is left with a glob, such as "
        f"Files('{locate(root)}/*.parquet')"
    )
    assert listed(root, may_have_lost=True) == ["b.parquet"]
    # What an incremental source has read may be cleaned away.
    incremental = Files("/-", incremental=True)
    assert [file.path.rpartition("/")[2] for file in list_splits(incremental, lambda _: root)] == ["b.parquet"]


@pytest.mark.parametrize(
    ("batch", "content", "problem"),
    [
        ("1", b"v1\n", "batch 0 of 1 is missing"),
        ("11", b"v1\n", "batch 0 of 11 is missing"),
        ("0", b"v2\n", "it begins with b'v2', expected b'v1'"),
        ("0", b'v1\n{"path": "a"}', """a line of it is not JSON of a file: b'{"path": "a"}'"""),
        ("0", b"v1\n{", "a line of it is not JSON of a file: b'{'"),
        (
            "0",
            b'v1\n{"path": "file:///elsewhere/a", "size": 1, "isDir": false}',
            "it names file:///elsewhere/a, which is not below ",
        ),
    ],
)
def test_a_log_that_cannot_be_read_for_certain_is_refused(
    root: ExchangePath, batch: str, content: bytes, problem: str
) -> None:
    write_atomic(below(root, f"_spark_metadata/{batch}"), content)
    with pytest.raises(DamagedFileError) as caught:
        listed(root)
    assert problem in str(caught.value)
    assert (
        "Only Spark's log of a stream's sink tells which files count; restore it, or read all files with a glob"
        in str(caught.value)
    )
