"""Which files a run is given, and what it is told when they are not what they were."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.core.incremental.position import Progress
from airflow_abs.exchange.errors import CommitError, ExchangeError
from airflow_abs.exchange.incremental.new_files import (
    NewFiles,
    begin_publication,
    end_publication,
    take_new_files,
)
from airflow_abs.exchange.incremental.position_log import read_position
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.planned_source import PlannedSource


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    deliver(folder / "a.csv", "1")
    return folder


def deliver(path: Path, content: str, at: float = 1_000.0) -> None:
    path.write_text(content)
    os.utime(path, (at, at))


def take(lake: Path, run: str, *, over: bool = False, **files: object) -> NewFiles:
    source = Files(str(lake), format="csv", schema="id INT", incremental=True, **files)  # type: ignore[arg-type]
    return take_new_files(folder_of(lake, run), "orders", source, ["total"], Path, lambda other: over)


def folder_of(lake: Path, run: str) -> JobFolder:
    return JobFolder(lake.parent / "exchange", "dag", run, "job")


def planned(new: NewFiles) -> PlannedSource:
    return PlannedSource("orders.source", "s0", new.declared, "{}", taken=new.taken)


def publish(lake: Path, run: str, new: NewFiles) -> None:
    begin_publication(folder_of(lake, run), planned(new), Path)
    end_publication(folder_of(lake, run), planned(new), "total")


def names(new: NewFiles) -> list[str]:
    return [Path(file.path).name for file in new.files]


def test_a_run_gets_only_what_no_run_has_published(lake: Path, caplog: pytest.LogCaptureFixture) -> None:
    publish(lake, "1", take(lake, "1"))
    deliver(lake / "b.csv", "22")
    with caplog.at_level(logging.INFO):
        assert names(take(lake, "2")) == ["b.csv"]
    assert "orders: 1 of 2 files to read, 2 B" in caplog.messages


def test_files_count_as_read_by_the_publication_and_not_before(lake: Path) -> None:
    new = take(lake, "1")
    begin_publication(folder_of(lake, "1"), planned(new), Path)
    assert read_position(folder_of(lake, "1"), "orders").runs[0].progress is Progress.PUBLISHING
    end_publication(folder_of(lake, "1"), planned(new), "total")
    assert read_position(folder_of(lake, "1"), "orders").runs[0].progress is Progress.READ


def test_the_same_file_delivered_again_is_not_read_again(lake: Path) -> None:
    publish(lake, "1", take(lake, "1"))
    deliver(lake / "a.csv", "1")
    assert names(take(lake, "2")) == []


def test_a_file_that_was_written_again_is_refused(lake: Path) -> None:
    publish(lake, "1", take(lake, "1"))
    deliver(lake / "a.csv", "1", at=2_000.0)
    with pytest.raises(ExchangeError) as caught:
        take(lake, "2")
    assert str(caught.value) == (
        f"vertex 'orders': file://{lake}/a.csv is another file than the one that run 1 has read (1 such file); each "
        "file is read once. Give new rows a new name, or declare Files(..., rewritten='skip'), which goes by names "
        "alone"
    )


def test_a_file_that_was_written_again_is_skipped_where_that_is_declared(
    lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publish(lake, "1", take(lake, "1"))
    deliver(lake / "a.csv", "1,2", at=2_000.0)
    with caplog.at_level(logging.INFO):
        assert names(take(lake, "2", rewritten="skip")) == []
    assert "orders: rewritten since they were read, and counted as read: 1 file" in caplog.messages


def test_a_run_that_is_cleared_reads_the_same_files_again(lake: Path) -> None:
    publish(lake, "1", take(lake, "1"))
    deliver(lake / "b.csv", "2")
    assert names(take(lake, "1", over=True)) == ["a.csv"]


def test_a_run_whose_files_are_gone_cannot_be_made_again(lake: Path) -> None:
    publish(lake, "1", take(lake, "1"))
    (lake / "a.csv").unlink()
    with pytest.raises(ExchangeError) as caught:
        take(lake, "1")
    assert str(caught.value) == (
        f"vertex 'orders': 1 file that run 1 has read is gone (such as file://{lake}/a.csv), so its output cannot be "
        "recomputed, and stays as it is. Restore them, or do not clear this run"
    )


def test_a_run_that_ended_gives_its_files_up_and_cannot_publish_them_any_more(
    lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = take(lake, "1")
    with caplog.at_level(logging.INFO):
        assert names(take(lake, "2", over=True)) == ["a.csv"]
    assert "orders: run 1 ended without publishing, and releases its files" in caplog.messages
    with pytest.raises(CommitError) as caught:
        begin_publication(folder_of(lake, "1"), planned(old), Path)
    assert str(caught.value) == (
        "vertex 'orders': the files that this run has planned to read are not its own any more: another run, or a "
        "later plan of this one, has taken some of them; nothing was published. Clear the task plan"
    )


def test_a_run_that_ended_while_it_published_keeps_its_files(lake: Path, caplog: pytest.LogCaptureFixture) -> None:
    begin_publication(folder_of(lake, "1"), planned(take(lake, "1")), Path)
    with caplog.at_level(logging.INFO):
        assert names(take(lake, "2", over=True)) == []
    assert (
        "orders: run 1 ended while it published, and no other run gets its files; clear its task commit, which finds "
        "out whether their rows are there"
    ) in caplog.messages


def test_a_file_that_changes_while_it_is_read_is_not_published(lake: Path) -> None:
    new = take(lake, "1")
    deliver(lake / "a.csv", "1\n2", at=2_000.0)
    with pytest.raises(ExchangeError) as caught:
        begin_publication(folder_of(lake, "1"), planned(new), Path)
    assert str(caught.value) == (
        f"vertex 'orders': file://{lake}/a.csv was rewritten while this run read it; nothing was published. Clear the "
        "task plan, and have writers put files there whole, by a rename"
    )
    publish(lake, "1", take(lake, "1"))  # what it says


def test_files_that_are_moved_away_after_they_were_read_do_not_hold_up_publication(lake: Path) -> None:
    new = take(lake, "1")
    shutil.rmtree(lake)
    publish(lake, "1", new)


def test_what_was_not_taken_is_not_published(lake: Path) -> None:
    with pytest.raises(ValueError, match="the plan did not take files for it"):
        begin_publication(folder_of(lake, "1"), replace(planned(take(lake, "1")), taken=None), Path)
