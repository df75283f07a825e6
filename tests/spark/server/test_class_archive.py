"""The archive of classes that servers start with: `make test` has that of this host made first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_abs.spark.connect.protocol import pyspark_folder
from airflow_abs.spark.server.class_archive import ClassArchive, find_class_archive
from airflow_abs.spark.server.embedded_state import EmbeddedSparkError
from airflow_abs.spark.server.java import find_java_home

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint


@pytest.fixture
def find(tmp_path: Path) -> Callable[..., ClassArchive | None]:
    """Of a Java and a Spark that are mere files, for an environment."""
    for name in ("java/lib/server/classes.jsa", "spark/jars/spark-core.jar", "spark/jars/scala.jar"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)

    def find_in(**environment: str) -> ClassArchive | None:
        given = {"XDG_CACHE_HOME": str(tmp_path / "cache")} | environment
        return find_class_archive(tmp_path / "java", tmp_path / "spark", given)

    return find_in


def found(archive: ClassArchive | None) -> ClassArchive:
    assert archive is not None
    return archive


def test_it_is_another_one_for_another_java_or_other_jars(
    find: Callable[..., ClassArchive | None], tmp_path: Path
) -> None:
    first = found(find())
    assert found(find()) == first
    (tmp_path / "spark/jars/delta.jar").write_text("more")
    second = found(find())
    (tmp_path / "java/lib/server/classes.jsa").write_text("a newer Java")
    assert len({first.path, second.path, found(find()).path}) == 3


def test_a_server_uses_it_once_it_is_made(find: Callable[..., ClassArchive | None]) -> None:
    archive = found(find())
    assert archive.using_it == ""
    with pytest.raises(FileNotFoundError):
        archive.take_over()
    archive.temporary.write_text("classes")
    assert archive.using_it == ""
    archive.take_over()
    assert archive.using_it == f'"-XX:SharedArchiveFile={archive.path}"'
    assert not archive.temporary.exists()


def test_the_last_three_are_kept(find: Callable[..., ClassArchive | None]) -> None:
    archive = found(find())
    for age in range(5):
        old = archive.path.with_name(f"old-{age}.jsa")
        old.write_text("classes")
        os.utime(old, (1000 - age, 1000 - age))
    archive.temporary.write_text("classes")
    archive.take_over()
    assert {path.name for path in archive.path.parent.glob("*.jsa")} == {archive.path.name, "old-0.jsa", "old-1.jsa"}


def test_it_is_for_this_user_alone(find: Callable[..., ClassArchive | None]) -> None:
    folder = found(find()).path.parent
    folder.chmod(0o777)
    assert find() is not None
    assert folder.stat().st_mode & 0o077 == 0


def test_there_is_none_for_a_java_without_one_of_its_own(
    find: Callable[..., ClassArchive | None], tmp_path: Path
) -> None:
    (tmp_path / "java/lib/server/classes.jsa").unlink()
    assert find() is None


@pytest.mark.parametrize("name", ["HADOOP_CONF_DIR", "YARN_CONF_DIR"])
def test_there_is_none_where_the_class_path_holds_folders(find: Callable[..., ClassArchive | None], name: str) -> None:
    assert find(**{name: "/etc/hadoop"}) is None


def test_there_is_none_where_the_conf_folder_is_not_empty_or_cannot_be_made(
    find: Callable[..., ClassArchive | None], tmp_path: Path
) -> None:
    (found(find()).conf_folder / "spark-defaults.conf").write_text("spark.master local")
    assert find() is None
    (tmp_path / "file").write_text("")
    assert find(XDG_CACHE_HOME=str(tmp_path / "file")) is None


def test_whoever_asks_for_one_that_cannot_be_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_abs.spark.server.preparing import make_class_archive

    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    with pytest.raises(
        EmbeddedSparkError, match=r"expected a Java with .* nor YARN_CONF_DIR to be set; servers start without"
    ):
        make_class_archive()


@pytest.mark.spark
def test_a_server_maps_it(connect_server: ConnectEndpoint) -> None:
    archive = found(find_class_archive(find_java_home(), pyspark_folder(), os.environ))
    if not archive.using_it:
        pytest.skip("not tested: `airflow-abs server prepare` was not called here, as `make test-rest` does")
    mapped = [
        maps
        for process in Path("/proc").glob("[0-9]*")
        if (maps := _read(process / "maps")) and f"={archive.path}" in _read(process / "cmdline")
    ]
    assert any(str(archive.path) in maps for maps in mapped)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
