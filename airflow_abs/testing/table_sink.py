"""The contract of a table as a sink, as tests that a kind of table inherits."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from airflow_abs.testing.table_contract import (
    TableContract,
    as_written,
    check,
    check_rows,
    make_rows,
    planned_tables,
    stage_file,
    table_access,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_abs.exchange.publish.publisher import Publisher
    from airflow_abs.exchange.publish.record import StagedFile
    from airflow_abs.exchange.publish.target_table import TargetTable

_MOST_STEPS = 100
_RUNS = 4
_PATIENCE = 300


class Killed(BaseException):
    """As if the process were gone; nothing catches it by mistake."""


class TableSinkContract(TableContract):
    """Tests of a kind of table as the sink of a vertex: inherit from it in a class that pytest collects.

    Most of them publish files that look like Spark's; the last one runs a job on Spark.
    """

    modes: Sequence[str] = ("append", "overwrite", "overwrite_partitions")

    def target(self, mode: str = "append") -> TargetTable:
        from airflow_abs.tables.declared import find_targets

        return cast("TargetTable", find_targets({"t": self.declare(mode=mode)}, table_access(self.endpoint))["t"])

    def publish(
        self,
        target: TargetTable,
        staged: Sequence[StagedFile],
        run: str | Publisher,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> dict[str, Any]:
        from airflow_abs.exchange.publish.publisher import Publisher
        from airflow_abs.tables.publishing.publication import publish_staged

        publisher = Publisher(f"dag/{run}/job/t") if isinstance(run, str) else run
        access = table_access(self.endpoint)
        return publish_staged(target, staged, publisher=publisher, access=access, on_step=on_step)

    def stage(self, folder: Path, target: TargetTable, *rows: tuple[int, int]) -> list[StagedFile]:
        """A file for each of these ranges of `make_rows`."""
        return [stage_file(folder, as_written(make_rows(*each), target)) for each in rows]

    def test_a_declared_sink_comes_back_from_json_where_there_is_no_table(self) -> None:
        from airflow_abs.tables.declared import read_declared
        from airflow_abs.tables.kinds import to_declared

        for mode in self.modes:
            declared = self.declare(mode=mode)
            found = read_declared(json.loads(json.dumps(to_declared(declared))))
            check(found == declared, f"{declared!r} came back from JSON as {found!r}")
            check(found.mode == mode, f"its mode is {found.mode!r}, expected {mode!r}")

    def test_an_unknown_mode_is_refused_as_the_dag_is_parsed(self) -> None:
        try:
            self.declare(mode="nonsense")
        except ValueError:
            return
        raise AssertionError("mode='nonsense' was taken")

    def test_its_asset_is_one_that_airflow_takes_and_the_same_for_every_run(self) -> None:
        from airflow_abs.task_groups.task_arguments import sink_asset

        asset = sink_asset(self.declare())
        check(asset is not None, "it has no asset_uri, though its name is not templated")
        check(asset == sink_asset(self.declare()), "two declarations of one table have two assets")

    def test_what_plan_found_of_it_survives_json(self) -> None:
        from airflow_abs.exchange.publish.target_table import TargetTable
        from airflow_abs.exchange.records.reading import as_record

        self.fill(0)
        target = self.target()
        found = as_record(json.loads(json.dumps(asdict(target))), TargetTable, where="plan.json")
        check(found == target, f"{target} came back from JSON as {found}")

    def test_a_run_is_in_the_table_once_however_often_it_is_published(self, tmp_path: Path) -> None:
        self.fill(10)
        target = self.target()
        staged = self.stage(tmp_path, target, (10, 20), (20, 25))
        for number in range(3):
            told = self.publish(target, staged, "monday")
            check(told["changed"] is (number == 0), f"publication {number + 1} told changed={told['changed']}")
            json.dumps(told)  # it is what `commit` returns
            check_rows(self.read(), make_rows(0, 25), f"published {number + 1} times")

    def test_a_run_that_is_killed_between_any_two_steps_and_tried_again_is_in_the_table_once(
        self, tmp_path: Path
    ) -> None:
        self.fill(10)
        target = self.target()
        expected, told = [(0, 10)], set[str]()
        for number in range(_MOST_STEPS):
            rows = (100 * (number + 1), 100 * (number + 1) + 5)
            staged = self.stage(tmp_path, target, rows)
            steps = _Steps(act_at=number + 1, act=_kill)
            try:
                self.publish(target, staged, f"run-{number}", steps)
            except Killed:
                self.publish(target, staged, f"run-{number}")
            told.update(steps.told)
            expected.append(rows)
            check_rows(self.read(), _united(expected), f"killed after step {number + 1} ({steps.told})")
            if len(steps.told) <= number:
                break
        check(len(told) >= 2, f"it tells {sorted(told)}; expected a step before it commits and one after it")

    def test_a_run_that_was_cleared_replaces_what_it_published_before(self, tmp_path: Path) -> None:
        self.fill(0)
        target = self.target()
        self.publish(target, self.stage(tmp_path, target, (0, 5)), "monday")
        self.publish(target, self.stage(tmp_path, target, (5, 10)), "tuesday")
        self.publish(target, self.stage(tmp_path, target, (10, 15)), "monday")
        check_rows(self.read(), make_rows(5, 15), "monday cleared, with other rows")
        self.publish(target, [], "monday")
        check_rows(self.read(), make_rows(5, 10), "monday cleared again, without rows")

    def test_a_commit_of_an_earlier_plan_does_not_replace_what_a_later_one_published(self, tmp_path: Path) -> None:
        from airflow_abs.exchange.errors import SupersededError
        from airflow_abs.exchange.publish.publisher import Publisher

        self.fill(0)
        for mode in {"append", "overwrite"}.intersection(self.modes):
            target = self.target(mode)
            late = self.stage(tmp_path / f"{mode} late", target, (0, 5))
            newer = self.stage(tmp_path / f"{mode} newer", target, (5, 10))
            told = self._publish_meanwhile(target, late, newer, mode)
            check(isinstance(told, SupersededError), f"{mode}: the commit of plan 1 after that of plan 2: {told}")
            check(not getattr(told, "restartable", True), "Airflow would try the commit of plan 1 again")
            check_rows(self.read(), make_rows(5, 10), f"{mode}: published by plan 2, and by plan 1 after it")
            self.publish(target, [], Publisher(mode, 3))

    def _publish_meanwhile(
        self, target: TargetTable, late: Sequence[StagedFile], newer: Sequence[StagedFile], run: str
    ) -> object:
        from airflow_abs.exchange.errors import SupersededError
        from airflow_abs.exchange.publish.publisher import Publisher

        def act() -> None:
            self.publish(target, newer, Publisher(run, 2))

        try:
            return self.publish(target, late, Publisher(run, 1), _Steps(act_at=1, act=act))
        except SupersededError as error:
            return error

    def test_what_another_installation_published_under_the_same_names_is_kept(self, tmp_path: Path) -> None:
        from airflow_abs.exchange.publish.publisher import Publisher

        self.fill(0)
        target = self.target()
        for installation, rows in (("one", (0, 5)), ("other", (5, 10))):
            publisher = Publisher(f"{installation}:dag/monday/job", 1, "dag/monday/job", ("t",))
            self.publish(target, self.stage(tmp_path / installation, target, rows), publisher)
        check_rows(self.read(), make_rows(0, 10), "two installations published under the same names")

    def test_what_was_published_for_a_vertex_is_the_runs_own_whatever_the_vertex_is_called(
        self, tmp_path: Path
    ) -> None:
        from airflow_abs.exchange.publish.publisher import Publisher

        self.fill(0)
        target = self.target()
        self.publish(target, self.stage(tmp_path / "old", target, (0, 5)), "monday")  # as dag/monday/job/t
        self.publish(target, self.stage(tmp_path / "others", target, (5, 10)), "tuesday")
        publisher = Publisher("one:dag/monday/job", 1, "dag/monday/job", ("total", "t"))
        staged = self.stage(tmp_path / "new", target, (10, 15))
        for number in range(2):
            told = self.publish(target, staged, publisher)
            check(told["changed"] is (number == 0), f"publication {number + 1} told changed={told['changed']}")
            check_rows(self.read(), make_rows(5, 15), "monday cleared, its vertex is called total by now")
        self.publish(target, self.stage(tmp_path / "newer", target, (15, 20)), publisher)
        check_rows(self.read(), _united([(5, 10), (15, 20)]), "monday cleared again")

    def test_what_a_job_published_before_it_was_renamed_is_replaced(self, tmp_path: Path) -> None:
        from airflow_abs.exchange.publish.publisher import Publisher

        self.fill(0)
        target = self.target()
        for job, rows in (("old", (0, 5)), ("kept", (5, 10))):
            publisher = Publisher(f"one:dag/monday/{job}", 1, f"dag/monday/{job}", ("t",))
            self.publish(target, self.stage(tmp_path / job, target, rows), publisher)
        renamed = Publisher("one:dag/monday/new", 2, "dag/monday/new", ("t",), ("one:dag/monday/old",))
        for number in range(2):
            told = self.publish(target, self.stage(tmp_path / "new", target, (10, 15)), renamed)
            check(told["changed"] is (number == 0), f"publication {number + 1} told changed={told['changed']}")
            check_rows(self.read(), make_rows(5, 15), "job 'old' is called 'new' by now, and was cleared")

    def test_overwriting_leaves_only_the_runs_rows_and_names_whose_were_replaced(self, tmp_path: Path) -> None:
        if "overwrite" not in self.modes:
            return
        self.fill(10)
        appended, target = self.target(), self.target("overwrite")
        self.publish(appended, self.stage(tmp_path, appended, (10, 15)), "monday")
        told = self.publish(target, self.stage(tmp_path, target, (20, 25)), "tuesday")
        check_rows(self.read(), make_rows(20, 25), "overwritten")
        check(told["replaced"] == ("dag/monday/job/t",), f"replaced is {told['replaced']}, expected monday's run")

    def test_rows_that_others_append_meanwhile_are_not_overwritten_unseen(self, tmp_path: Path) -> None:
        from airflow_abs.exchange.errors import CommitConflictError

        if "overwrite" not in self.modes:
            return
        self.fill(10)
        target = self.target("overwrite")
        staged = self.stage(tmp_path, target, (20, 25))
        others = _Steps(act_at=1, act=lambda: self.append(make_rows(10, 15)))
        try:
            self.publish(target, staged, "monday", others)
        except CommitConflictError as error:
            check(not error.restartable, "Airflow would overwrite these rows by the next try of its own")
            check_rows(self.read(), make_rows(0, 15), "others appended while it was about to overwrite")
        else:
            raise AssertionError(f"others appended after step {others.told[0]!r}, and were overwritten unseen")
        self.publish(target, staged, "monday")
        check_rows(self.read(), make_rows(20, 25), "published again")

    def test_runs_that_are_published_at_once_by_two_each_are_in_the_table_once(self, tmp_path: Path) -> None:
        self.fill(0)
        target = self.target()

        def publish(number: int) -> None:
            run = number % _RUNS
            staged = self.stage(tmp_path / str(number), target, (run * 10, run * 10 + 5), (run * 10 + 5, run * 10 + 10))
            self.publish(target, staged, f"run-{run}")

        with ThreadPoolExecutor(2 * _RUNS) as pool:
            for each in [pool.submit(publish, number) for number in range(2 * _RUNS)]:
                each.result(timeout=_PATIENCE)
        check_rows(self.read(), make_rows(0, 10 * _RUNS), f"{_RUNS} runs at once")

    def test_a_file_that_is_gone_or_cut_short_is_not_published(self, tmp_path: Path) -> None:
        from airflow_abs.exchange.errors import ExchangeError

        self.fill(10)
        target = self.target()
        first, second = self.stage(tmp_path, target, (10, 15), (15, 20))
        gone = replace(second, source=tmp_path / "nothing.parquet")
        for staged in (gone, replace(second, bytes=second.bytes + 1)):
            try:
                self.publish(target, [first, staged], "monday")
            except ExchangeError:
                check_rows(self.read(), make_rows(0, 10), "a file is gone or cut short")
                continue
            raise AssertionError(f"{staged} was published")

    def test_what_spark_wrote_is_what_the_formats_own_reader_reads(self, tmp_path: Path) -> None:
        import pyarrow.compute as pc

        from airflow_abs.exchange.sources.files import Files
        from airflow_abs.testing.tables import write_table

        partitioned = self.has_partitions and "overwrite_partitions" in self.modes
        self.fill(0, partitioned=partitioned)
        rows, later = make_rows(0, 60), make_rows(60, 100)
        for name, table in (("monday", rows), ("tuesday", later)):
            write_table(table, tmp_path / name)
            mode = "overwrite_partitions" if partitioned and name == "tuesday" else "append"
            transform = _without_region if name == "tuesday" else None
            vertex = {"source": Files(str(tmp_path / name)), "transform": transform, "sink": self.declare(mode=mode)}
            with planned_tables(self.endpoint(), tmp_path / f"{name}-exchange", {"t": vertex}) as tables:
                tables.run(3, name)
            if name == "monday":
                check_rows(self.read(), rows, "appended by 3 subtasks")
        null = pc.is_null(rows["region"])
        kept = rows.filter(pc.invert(null)) if partitioned else rows
        expected = _concat([kept, later.filter(pc.is_null(later["region"]))])
        check_rows(self.read(), expected, "rows without a region written after it")


def _without_region(rows: Any) -> Any:
    return rows.where("region IS NULL")


class _Steps:
    """Counts the steps of a publication, and does something after one of them."""

    def __init__(self, act_at: int, act: Callable[[], None]) -> None:
        self.act_at, self.act = act_at, act
        self.told: list[str] = []

    def __call__(self, step: str) -> None:
        self.told.append(step)
        if len(self.told) == self.act_at:
            self.act()


def _kill() -> None:
    raise Killed


def _united(ranges: Sequence[tuple[int, int]]) -> pa.Table:
    return _concat([make_rows(*each) for each in ranges])


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables(tables)
