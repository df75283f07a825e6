"""Who gets which file of an incremental source: every file one run, whatever order things happen in."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.incremental.position import (
    FoundFile,
    Position,
    Progress,
    RunFiles,
    begin_publishing,
    end_publishing,
    take_files,
)

A, B, C = (FoundFile(name, 10, "1") for name in "abc")


def nobody(run: str) -> bool:
    return False


def everybody(run: str) -> bool:
    return True


def read(run: str, *files: FoundFile) -> RunFiles:
    return RunFiles(run, files, Progress.READ, ("sink",))


def test_a_run_takes_what_belongs_to_nobody() -> None:
    taking = take_files(Position((read("1", A),)), "2", [A, B], nobody)
    assert taking.entry == RunFiles("2", (B,))
    assert taking.position == Position((read("1", A), RunFiles("2", (B,))))


def test_two_runs_at_once_never_get_the_same_file() -> None:
    first = take_files(Position(), "1", [A, B], nobody)
    second = take_files(first.position, "2", [A, B, C], nobody)
    assert (first.entry.files, second.entry.files) == ((A, B), (C,))


def test_a_run_that_planned_again_before_it_published_takes_what_has_come_since() -> None:
    first = take_files(Position(), "1", [A], nobody)
    again = take_files(first.position, "1", [A, B], nobody)
    assert again.entry == RunFiles("1", (A, B))
    assert begin_publishing(again.position, "1", first.entry.digest) is None  # what the first plan was to read
    assert begin_publishing(again.position, "1", again.entry.digest) is not None


def test_files_of_a_run_that_ended_without_publishing_are_free_again() -> None:
    failed = take_files(Position(), "1", [A], nobody)
    taking = take_files(failed.position, "2", [A, B], everybody)
    assert (taking.entry.files, taking.given_up) == ((A, B), ("1",))
    assert begin_publishing(taking.position, "1", failed.entry.digest) is None


def test_nobody_gets_the_files_of_a_run_that_began_to_publish() -> None:
    taken = take_files(Position(), "1", [A], nobody)
    begun = begin_publishing(taken.position, "1", taken.entry.digest)
    assert begun is not None
    taking = take_files(begun, "2", [A, B], everybody)
    assert (taking.entry.files, taking.unsure, taking.given_up) == ((B,), ("1",), ())


def test_a_run_that_published_reads_the_same_files_again() -> None:
    taking = take_files(Position((read("1", A),)), "1", [A, B], everybody)
    assert taking.entry == read("1", A)
    assert (taking.changed, taking.missing) == ((), ())


def test_a_published_file_that_is_gone_is_told_to_the_run_that_would_read_it_again() -> None:
    taking = take_files(Position((read("1", A, B),)), "1", [B], nobody)
    assert taking.missing == (A,)


def test_a_file_that_is_gone_is_nothing_to_any_other_run() -> None:
    taking = take_files(Position((read("1", A),)), "2", [], nobody)
    assert (taking.entry.files, taking.missing) == ((), ())


def test_a_file_that_was_written_again_is_told_with_the_run_that_has_read_it() -> None:
    other = replace(A, version="2")
    assert take_files(Position((read("1", A),)), "2", [other], nobody).changed == (("1", other),)
    again = take_files(Position((read("1", A),)), "1", [other], nobody)
    assert again.changed == (("1", other),)
    assert again.entry.files == (other,)  # who goes by names reads it as it is now


def test_files_are_read_once_all_sinks_are_published_that_they_reach() -> None:
    taken = take_files(Position(), "1", [A], nobody)
    begun = begin_publishing(taken.position, "1", taken.entry.digest)
    assert begun is not None
    one = end_publishing(begun, "1", "x", ("x", "y"))
    assert one.runs[0].progress is Progress.PUBLISHING
    both = end_publishing(one, "1", "y", ("x", "y"))
    assert both.runs[0] == RunFiles("1", (A,), Progress.READ, ("x", "y"))
    assert end_publishing(both, "1", "y", ("x", "y")) == both


@given(st.data())
def test_every_file_is_published_by_one_run_at_most_and_by_one_as_soon_as_some_run_succeeds(
    data: st.DataObject,
) -> None:
    """Runs plan, publish, die at any step, are cleared, and come while others are under way; files come in between."""
    names = [f"f{k}" for k in range(data.draw(st.integers(1, 5)))]
    position, planned = Position(), dict[str, RunFiles]()
    published: dict[str, tuple[FoundFile, ...]] = {}
    there: list[FoundFile] = []
    over: set[str] = set()
    for _ in range(data.draw(st.integers(1, 25))):
        run = data.draw(st.sampled_from(["1", "2", "3"]))
        match data.draw(st.sampled_from(["file", "plan", "publish", "end", "end of both"])):
            case "file" if names:
                there.append(FoundFile(names.pop(), 1, "1"))
            case "plan":
                over.discard(run)
                taking = take_files(position, run, there, over.__contains__)
                position, planned[run] = taking.position, taking.entry
            case "publish" if run in planned:  # also by a commit of an earlier plan that was paused until now
                begun = begin_publishing(position, run, planned[run].digest)
                if begun is not None:
                    position = begun
                    published[run] = planned[run].files
            case "end of both" if run in published:
                position = end_publishing(position, run, "sink", ("sink",))
            case "end":
                over.add(run)
        owned = [file for entry in position.runs for file in entry.files]
        assert len(owned) == len(set(owned))
        rows = [file for files in published.values() for file in files]
        assert len(rows) == len(set(rows))
    last = take_files(position, "last", there, lambda run: True)
    begun = begin_publishing(last.position, "last", last.entry.digest)
    assert begun is not None
    everything = {file for files in published.values() for file in files} | set(last.entry.files)
    assert everything == set(there)
