"""Tables are asked in `decide`, aside and for a time; without an answer there is always something to decide by."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, current_thread
from typing import Any

import pytest

from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.core.durability.strange_day import UsualBytes
from airflow_abs.core.settings import JobSettings
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.deciding import decide_and_store
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.exchange.records.plan import JobPlan, PlannedRegion
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.pinned import PinnedTable, write_pinned_files
from airflow_abs.exchange.sources.planned_source import PlannedSource
from airflow_abs.exchange.storage.whole_files import write_json
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.inference import SourceInference
from airflow_abs.tables.source import InferenceContext, Inferred

MIB = 2**20
HERE = "tests.tables.test_inference"
KIND = f"{HERE}.AskedTable"
FILES = tuple(SourceFile(f"/shelf/{number}.parquet", 40 * MIB) for number in range(8))
UNSIZED = tuple(replace(file, bytes=0) for file in FILES)
OPTIONS = JobSettings(target_bytes=80 * MIB, inference_timeout=20.0)
MONDAY = ("2026-01-01", "2026-01-02")

released = Event()
asked: list[tuple[str, InferenceContext]] = []


@dataclass(frozen=True)
class AskedTable:
    """Answers as it is told to."""

    answers: str

    def to_json(self) -> dict[str, Any]:
        return {"answers": self.answers}

    async def infer(self, context: InferenceContext) -> Inferred:
        asked.append((current_thread().name, context))
        match self.answers:
            case "half":
                return Inferred(tuple(reversed(context.files[:4])), "4 of 8 files left by dates.d")
            case "larger":
                return Inferred([replace(file, bytes=160 * MIB) for file in context.files])
            case "awaits":
                await asyncio.Event().wait()
            case "blocks":
                released.wait(timeout=60)
            case "fails":
                raise ConnectionError("the catalog is away\nat line 3")
            case "foreign":
                return Inferred([SourceFile("/shelf/9.parquet", 1)])
            case "twice":
                return Inferred([*context.files, context.files[0]])
        return Inferred(context.files)


class CountedTable(AskedTable):
    """Says into how many subtasks it should be read, too."""

    async def infer_parallelism(self, context: InferenceContext) -> Any:
        asked.append((current_thread().name, context))
        return {"half": 3, "all": 0, "many": 90, "odd": 2.5}[self.answers]


@dataclass(frozen=True)
class SilentTable:
    """Knows no more than plan."""

    answers: str


@pytest.fixture(autouse=True)
def _release() -> Iterator[None]:
    asked.clear()
    released.clear()
    yield
    released.set()


def decide(
    folder: Path,
    answers: str,
    files: tuple[SourceFile, ...] = FILES,
    declared: tuple[str, ...] = (KIND,),
    kind: str = "AskedTable",
    **more: Any,
) -> RegionDecision:
    run = JobFolder(folder, "dag", "monday", "job")
    table = PinnedTable(
        "shelf", "version 7", "parquet", "{}", 8, 8, 8, 8, declared={"kind": f"{HERE}.{kind}", "answers": answers}
    )
    source = PlannedSource("sold.source", "s0", None, "{}", table=table)
    fixed = more.pop("parallelism", None)
    region = PlannedRegion("sold", ("sold",), (source,), (), (), (), fixed, 128, None)
    usual: Mapping[str, UsualBytes] = more.pop("usual", {})
    plan = JobPlan("plan-1", (region,), replace(OPTIONS, **more), None, "4.2.0", usual=usual, data_interval=MONDAY)
    write_pinned_files(run, "sold", "sold", files)
    write_json(run.plan_path, plan.to_json())
    records = RunRecords(run)
    sources = SourceInference(records, TableAccess(lambda conn_id: {}, Path), declared)
    stored = decide_and_store(records, "sold", {}, sources)
    assert read_decision(run, "sold") == stored
    assert plan.strange_sources(stored.decision) == ()
    return stored.decision


def test_a_table_is_asked_aside_with_all_that_is_known(tmp_path: Path) -> None:
    found = decide(tmp_path, "all")
    assert (found.parallelism, found.reason) == (
        4, "320.0 MiB in 8 splits at a target of 80.0 MiB -> 4 subtasks"
    )  # fmt: skip
    (thread, context), = asked  # fmt: skip
    assert thread == "infer shelf"
    assert (context.upper_bound, context.target_bytes, context.slots) == (128, 80 * MIB, None)
    assert (context.data_interval, context.pinned.version) == (("2026-01-01", "2026-01-02"), "version 7")


def test_what_it_leaves_out_is_not_read_and_the_reason_says_so(tmp_path: Path) -> None:
    found = decide(tmp_path, "half")
    assert found.parallelism == 2
    assert found.reason == (
        "160.0 MiB in 4 splits at a target of 80.0 MiB; sold.source: 4 of 8 files left by dates.d -> 2 subtasks"
    )
    stored = read_decision(JobFolder(tmp_path, "dag", "monday", "job"), "sold")
    assert [file.path for file in stored.files["sold.source"]] == [file.path for file in FILES[:4]]


def count(folder: Path, answers: str, **more: Any) -> RegionDecision:
    return decide(folder, answers, kind="CountedTable", declared=(f"{HERE}.CountedTable",), **more)


def test_a_number_of_its_own_counts_besides_the_files_that_are_left(tmp_path: Path) -> None:
    found = count(tmp_path, "half", slots=2, default_source_parallelism=2)
    assert found.parallelism == 3  # neither the default of sources binds it, nor are slots filled
    assert found.reason == (
        "160.0 MiB in 4 splits at a target of 80.0 MiB; "
        "sold.source: 4 of 8 files left by dates.d, it asks for 3 subtasks -> 3 subtasks"
    )
    (_, first), (_, second) = asked
    assert (first.upper_bound, len(first.files), len(second.files)) == (2, 8, 4)
    stored = read_decision(JobFolder(tmp_path, "dag", "monday", "job"), "sold")
    assert [each.parallelism for each in stored.as_listed()] == [3]


def test_a_number_of_its_own_ends_at_the_files_and_stands_where_no_size_is_known(tmp_path: Path) -> None:
    found = count(tmp_path, "many", files=UNSIZED)
    assert (found.parallelism, found.reason) == (
        8,
        "8 splits of unknown size at a target of 80.0 MiB; sold.source: it asks for 90 subtasks -> 8 subtasks; number "
        "of splits 8 lowers 90 to 8",
    )


def test_no_number_leaves_it_to_the_bytes(tmp_path: Path) -> None:
    assert count(tmp_path, "all").reason == "320.0 MiB in 8 splits at a target of 80.0 MiB -> 4 subtasks"


def test_nobody_asks_for_a_number_that_the_author_has_set(tmp_path: Path) -> None:
    found = count(tmp_path, "half", parallelism=2)
    assert (found.rule, found.parallelism, len(asked)) == ("fixed", 2, 1)


def test_a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"CountedTable' returned 2.5; expected an integer, of 0 or less where"):
        count(tmp_path, "odd")


def test_a_table_that_knows_no_more_than_plan_is_not_asked(tmp_path: Path) -> None:
    found = decide(tmp_path, "", kind="SilentTable", declared=(f"{HERE}.SilentTable",))
    assert found.reason == "320.0 MiB in 8 splits at a target of 80.0 MiB -> 4 subtasks"


def test_sizes_that_it_tells_count(tmp_path: Path) -> None:
    assert decide(tmp_path, "larger").parallelism == 8  # 1280 MiB would be 16, and there are 8 splits


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ("awaits", "no answer within 0.05 s"),
        ("blocks", "no answer within 0.05 s"),
        ("fails", "no answer (ConnectionError: the catalog is away)"),
    ],
)
def test_without_an_answer_what_plan_fixed_is_read(tmp_path: Path, answers: str, said: str) -> None:
    found = decide(tmp_path, answers, inference_timeout=20.0 if answers == "fails" else 0.05)
    assert (found.parallelism, found.inputs[0].size_from) == (4, None)
    assert f"; sold.source: {said} -> 4 subtasks" in found.reason


def test_a_size_that_nobody_knows_is_that_of_earlier_days(tmp_path: Path) -> None:
    usual = {"sold": UsualBytes(640 * MIB, 400 * MIB, 700 * MIB, 5, "Monday")}
    found = decide(tmp_path, "all", UNSIZED, usual=usual)
    assert (found.parallelism, found.inputs[0].size_from, found.total_bytes) == (8, "history", 640 * MIB)
    assert found.reason == (
        "640.0 MiB in 8 splits at a target of 80.0 MiB; sold.source: it does not know its size, 640.0 MiB is the "
        "median of 5 earlier Mondays -> 8 subtasks"
    )
    assert "640.0 MiB (as on earlier days) in 8 splits" in found.describe()


def test_without_earlier_days_there_are_as_many_subtasks_as_a_source_may_have(tmp_path: Path) -> None:
    found = decide(tmp_path, "blocks", UNSIZED, inference_timeout=0.05, default_source_parallelism=5)
    assert (found.parallelism, found.inputs[0].size_from, found.inputs[0].bytes) == (5, "default", 0)
    assert found.reason == (
        "8 splits of unknown size at a target of 80.0 MiB; sold.source: no answer within 0.05 s, too few earlier "
        "days are known: the source maximum -> 5 subtasks"
    )
    assert sorted(len(subtask.splits["sold.source"]) for subtask in found.subtasks) == [1, 1, 2, 2, 2]
    assert "unknown size in 8 splits" in found.describe()


def test_a_guess_is_decided_alike_when_it_is_replayed(tmp_path: Path) -> None:
    decide(tmp_path, "all", UNSIZED, default_source_parallelism=5)
    stored = read_decision(JobFolder(tmp_path, "dag", "monday", "job"), "sold")
    (again,) = stored.as_listed()
    assert (list(again.split_bytes), again.size_from, again.bytes) == ([1] * 8, "default", 0)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ("foreign", "returned /shelf/9.parquet, which is none of the 8 files"),
        ("twice", "returned a file twice, of the 8"),
    ],
)
def test_an_answer_beyond_what_plan_fixed_is_refused(tmp_path: Path, answers: str, said: str) -> None:
    with pytest.raises(TableError, match=rf"table shelf: infer\(\) of its kind .*{said}.*clear this task"):
        decide(tmp_path, answers)


def test_a_plan_that_names_a_kind_which_the_dag_does_not_loads_nothing(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"planned as one of kind .*AskedTable', and the DAG declares 'iceberg'"):
        decide(tmp_path, "all", declared=("iceberg",))
    assert asked == []
