from __future__ import annotations

from pathlib import Path

import pytest
from upath import UPath

from airflow_abs.exchange.errors import ExchangeError, ExchangeUnreachableError, SourceNotFoundError
from airflow_abs.exchange.paths import uri_for_spark
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.listing import SourceFile, list_source_files
from airflow_abs.exchange.sources.splits import list_splits
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import write_atomic


def put(root: ExchangePath, *names: str) -> None:
    """Files whose size is the length of their name."""
    for name in names:
        path = root
        for part in name.split("/"):
            path = path / part
        write_atomic(path, b"x" * len(name))


def listed(root: ExchangePath, below: str = "", **options: object) -> list[str]:
    path = root
    for part in filter(None, below.split("/")):
        path = path / part
    files = list_source_files(path, **options)  # type: ignore[arg-type]
    prefix = f"{uri_for_spark(root)}/"
    assert all(file.path.startswith(prefix) for file in files)
    names = [file.path.removeprefix(prefix) for file in files]
    assert [file.bytes for file in files] == [len(name) for name in names]
    return names


def test_a_file_is_its_own_only_split(root: ExchangePath) -> None:
    put(root, "a.csv")
    assert listed(root, "a.csv") == ["a.csv"]


def test_a_folder_gives_its_files_in_order(root: ExchangePath) -> None:
    put(root, "d/b.csv", "d/a.csv", "d/c.csv")
    assert listed(root, "d") == ["d/a.csv", "d/b.csv", "d/c.csv"]


def test_what_spark_hides_is_not_listed(root: ExchangePath) -> None:
    # this list was read back with Spark 4.2: it reads a.parquet and _d=1.parquet
    put(root, "a.parquet", "_b.parquet", ".c.parquet", "_d=1.parquet", "e._COPYING_", "_sub/g.parquet")
    write_atomic(root / "empty.parquet", b"")
    assert listed(root) == ["_d=1.parquet", "a.parquet"]


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("_delta_log/00000.json", "is a Delta table, whose log says which of its files count; read it as DeltaTable"),
        (".hoodie/hoodie.properties", "is a Hudi table, whose log says which of its files count; read a copy of it"),
    ],
)
def test_a_table_is_not_read_as_files(root: ExchangePath, log: str, told: str) -> None:
    put(root, "t/a.parquet", f"t/{log}", "t/data/b.parquet")
    with pytest.raises(ExchangeError) as caught:
        listed(root, "t")
    assert f"source {locate(root / 't')}: {told}" in str(caught.value)
    assert str(caught.value).endswith(f"with a glob, such as Files('{locate(root / 't')}/*.parquet')")
    assert listed(root, "t/*.parquet") == ["t/a.parquet"]


def test_the_sink_of_a_stream_that_was_made_a_table_is_a_table(root: ExchangePath) -> None:
    put(root, "t/a.parquet", "t/_spark_metadata/0", "t/_delta_log/0.json")
    with pytest.raises(ExchangeError, match="is a Delta table, whose log says which of its files count"):
        listed(root, "t")


def test_the_files_of_an_iceberg_table_are_not_read_without_it(root: ExchangePath) -> None:
    put(root, "t/metadata/0-a.metadata.json", "t/data/day=1/a.parquet", "u/metadata/words.json", "u/data/a.parquet")
    for below in ("t", "t/data"):
        with pytest.raises(
            ExchangeError, match="is an Iceberg table, whose log says which of its files count; read it"
        ):
            listed(root, below)
    assert listed(root, "u/data") == ["u/data/a.parquet"]
    assert listed(root, "u") == []


def test_partition_folders_are_descended_into(root: ExchangePath) -> None:
    put(root, "t/ds=1/h=2/a", "t/ds=1/h=3/b", "t/ds=2/_SUCCESS", "t/ds=2/c", "t/_tmp/ds=3/d", "t/.x/ds=3/e")
    assert listed(root, "t") == ["t/ds=1/h=2/a", "t/ds=1/h=3/b", "t/ds=2/c"]


def test_other_subfolders_only_on_demand(root: ExchangePath) -> None:
    put(root, "t/a", "t/archive/b", "t/archive/_hidden/c")
    assert listed(root, "t") == ["t/a"]
    assert listed(root, "t", recursive=True) == ["t/a", "t/archive/b"]


def test_one_partition_makes_all_levels_count_as_in_spark(root: ExchangePath) -> None:
    put(root, "t/archive/ds=1/b", "t/plain/c")
    assert listed(root, "t") == ["t/archive/ds=1/b", "t/plain/c"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("ds=*/a", ["ds=1/a", "ds=2/a"]),
        ("ds=?", ["ds=1/a", "ds=1/b", "ds=2/a"]),
        ("ds=[2-9]/*", ["ds=2/a"]),
        ("ds={1,2}/a", ["ds=1/a", "ds=2/a"]),
        ("{ds=1/b,plain}", ["ds=1/b", "plain/c"]),
        ("*/a", ["ds=1/a", "ds=2/a"]),
        ("_*/a", ["_tmp/a"]),
        ("**", ["ds=1/a", "ds=1/b", "ds=2/a", "plain/c"]),
        ("{ds=1,ds=*}/a", ["ds=1/a", "ds=2/a"]),
    ],
)
def test_a_glob_finds_what_hadoop_finds(root: ExchangePath, pattern: str, found: list[str]) -> None:
    put(root, "ds=1/a", "ds=1/b", "ds=2/a", "plain/c", "_tmp/a")
    assert listed(root, pattern) == found


def test_a_glob_over_an_empty_match_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "ds=1").mkdir()
    assert list_source_files(tmp_path / "ds=*") == []


def test_an_empty_folder_gives_no_files(tmp_path: Path) -> None:
    assert list_source_files(tmp_path) == []


def test_names_can_be_filtered(root: ExchangePath) -> None:
    put(root, "a.csv", "b.json", "c.csv.gz")
    assert listed(root, name_pattern="*.csv") == ["a.csv"]
    assert listed(root, name_pattern="*.{csv,json}") == ["a.csv", "b.json"]


def test_a_path_that_is_not_there_names_what_is(root: ExchangePath) -> None:
    put(root, "orders/ds=2026-01-01/a", "orders/ds=2026-01-02/a")
    with pytest.raises(SourceNotFoundError) as caught:
        listed(root, "orders/ds=2026-01-03/x")
    assert "source " in str(caught.value)
    assert "orders/ds=2026-01-03/x: matches nothing; expected a file, a folder or a glob." in str(caught.value)
    assert "orders holds ds=2026-01-01, ds=2026-01-02: check the path and the date in it" in str(caught.value)


def test_a_glob_that_matches_nothing_names_what_is_there(root: ExchangePath) -> None:
    put(root, *(f"orders/ds={day}/a" for day in range(1, 8)))
    with pytest.raises(SourceNotFoundError, match=r"orders holds ds=1, ds=2, ds=3, ds=4, ds=5, \.\.\.: check the path"):
        listed(root, "orders/ds=2026*/a")


@pytest.mark.parametrize("pattern", ["{a", "[a", "a\\"])
def test_a_malformed_glob_is_named(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(SourceNotFoundError, match=r"source .*: pattern .*; escape it with a backslash or close it"):
        list_source_files(tmp_path / pattern)


def test_a_folder_that_cannot_be_listed_is_no_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.local import LocalFileSystem

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LocalFileSystem, "ls", refuse)
    with pytest.raises(ExchangeUnreachableError, match=r"cannot be listed \(PermissionError: .*check the path and the"):
        list_source_files(tmp_path)


def test_local_symlinks_are_followed(tmp_path: Path) -> None:
    put(tmp_path / "disk", "ds=1/a")
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "ds=1").symlink_to(tmp_path / "disk" / "ds=1")
    assert [file.path for file in list_source_files(tmp_path / "table")] == [f"file://{tmp_path}/table/ds=1/a"]


def test_odd_names_stay_as_they_are(tmp_path: Path) -> None:
    put(tmp_path, "a b%20[c]{d}.csv")
    assert list_source_files(tmp_path) == [SourceFile(f"file://{tmp_path}/a b%20[c]{{d}}.csv", 16)]


def test_a_trailing_slash_changes_nothing() -> None:
    put(UPath("memory://listing-slash"), "d/a")
    assert list_source_files(UPath("memory://listing-slash/d/")) == [SourceFile("memory://listing-slash/d/a", 3)]


def test_a_file_is_seen_that_was_written_behind_a_cached_listing(root: ExchangePath) -> None:
    put(root, "d/a")
    assert listed(root, "d") == ["d/a"]
    put(root, "d/b")
    assert listed(root, "d") == ["d/a", "d/b"]


@pytest.mark.parametrize("name", ["orders/ds=2026-01-03", "orders/ds=2026-01-0[3-9]/*", "nowhere"])
def test_a_day_that_may_be_missing_has_no_files(root: ExchangePath, name: str) -> None:
    """An object store has no empty folders: a day without data is not there at all."""
    put(root, "orders/ds=2026-01-01/a")
    with pytest.raises(SourceNotFoundError, match=r"or declare Files\(\.\.\., missing='empty', schema='\.\.\.'\)"):
        listed(root, name)
    assert listed(root, name, may_be_missing=True) == []
    files = Files("unused", schema="id BIGINT", missing="empty")
    path = root
    for part in name.split("/"):
        path = path / part
    assert list_splits(files, lambda uri: path) == []


def test_a_missing_path_that_is_empty_needs_a_schema() -> None:
    with pytest.raises(ValueError, match=r"Files\('x'\): missing='empty' needs a schema; give schema='id BIGINT"):
        Files("x", missing="empty")
    with pytest.raises(ValueError, match=r"Files\('x'\): missing is 'maybe'; expected one of error, empty"):
        Files("x", missing="maybe")  # type: ignore[arg-type]
    files = Files("x", missing="empty", schema="id BIGINT")
    assert Files.from_json(files.to_json()) == files
