"""The contract of a table as a source, as tests that a kind of table inherits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, cast

from airflow_abs.testing.table_contract import (
    TableContract,
    check,
    check_rows,
    make_rows,
    planned_tables,
    table_access,
)

if TYPE_CHECKING:
    from airflow_abs.tables.source import Inferred, Pin

_ROWS = 60
_SECONDS = 60.0


class TableSourceContract(TableContract):
    """Tests of a kind of table as the source of a vertex: inherit from it in a class that pytest collects. A few of
    them run Spark, for half a minute in total.
    """

    conditions: Mapping[str, str] = {
        "id >= 40": "id >= 40",
        "region = 'north'": "region = 'north'",
        "region IS NULL": "region IS NULL",
        "day < '2026-01-03' AND id > 10": "day < '2026-01-03' AND id > 10",
    }
    """What ``where=`` may say, and the same in Spark's SQL; empty for kinds that have no such argument."""

    def pin(self, folder: Path, **arguments: Any) -> Pin:
        from airflow_abs.tables.source import LandedSource

        source = self.declare(**arguments)
        if isinstance(source, LandedSource):
            return source.land(table_access(self.endpoint), folder / "landed")
        return cast("Pin", source.pin(table_access(self.endpoint)))

    def infer(self, pin: Pin, **arguments: Any) -> Inferred:
        """What the table answers in `decide`, on the thread on which it is asked there."""
        from airflow_abs.tables.inference import ask
        from airflow_abs.tables.source import InferenceContext

        context = InferenceContext(pin.pinned, pin.files, table_access(self.endpoint), 128, target_bytes=2**20)
        return ask(self.declare(**arguments), context, _SECONDS).result(_SECONDS)[0]

    def test_a_declared_source_comes_back_from_json_where_there_is_no_table(self) -> None:
        from airflow_abs.tables.declared import read_declared
        from airflow_abs.tables.kinds import to_declared

        declared = self.declare()
        found = read_declared(json.loads(json.dumps(to_declared(declared))))
        check(found == declared, f"{declared!r} came back from JSON as {found!r}")

    def test_a_table_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        from airflow_abs.exchange.errors import ExchangeError

        try:
            found = self.pin(tmp_path)
        except ExchangeError:
            return
        raise AssertionError(f"there is no table yet, and it was found with {len(found.files)} files")

    def test_the_columns_are_those_of_the_table(self, tmp_path: Path) -> None:
        self.fill(_ROWS)
        pin = self.pin(tmp_path)
        given, in_files = (json.loads(each)["fields"] for each in (pin.schema, pin.pinned.file_schema))
        names = [field["name"] for field in given]
        check(names == make_rows(0, 0).column_names, f"columns {names}, expected {make_rows(0, 0).column_names}")
        types, found = ([field["type"] for field in fields] for fields in (given, in_files))
        check(found == types, f"columns of the types {found} are looked up in files, expected {types}")

    def test_the_sizes_are_those_of_the_files(self, tmp_path: Path) -> None:
        from airflow_abs.exchange.storage.locations import locate
        from airflow_abs.hooks.storage import open_path

        self.fill(_ROWS, partitioned=self.has_partitions)
        pin = self.pin(tmp_path)
        pinned = pin.pinned
        for file in pin.files:
            where = locate(open_path(file.path))
            size = where.fs.size(where.path)
            check(size == file.bytes, f"{file.path} has {size} bytes, and {file.bytes} were told")
        told = (pinned.files, pinned.bytes, pinned.all_files, pinned.all_bytes)
        size = sum(file.bytes for file in pin.files)
        check(told == (len(pin.files), size) * 2, f"files, bytes, all files, all bytes are told as {told}")
        again = self.pin(tmp_path).files
        check(again == pin.files, "files come in another order when a table is asked again")

    def test_it_infers_what_plan_fixed_though_the_table_changes(self, tmp_path: Path) -> None:
        self.fill(_ROWS)
        pin = self.pin(tmp_path)
        for change in (None, self.append, self.overwrite):
            if change is not None:
                change(make_rows(100, 120))
            found = self.infer(pin).files
            gone = {file.path for file in pin.files} ^ {file.path for file in found}
            check(not gone, f"nothing says that any file is not needed, and {len(gone)} are not those of plan: {gone}")
            check(len(found) == len(pin.files), f"{len(found)} files are told, {len(pin.files)} were fixed")
            known = [file.bytes for file in found if file.bytes]
            check(len(known) in (0, len(found)), "of some files the size is told, of others not; expected all or none")

    def test_a_table_without_rows_gives_its_columns(self, tmp_path: Path) -> None:
        self.create(make_rows(0, 0).schema)
        with self._planned(tmp_path) as tables:
            check_rows(tables.run(2)["t"].rows, make_rows(0, 0), "without rows")

    def test_every_row_is_read_once_at_any_parallelism(self, tmp_path: Path) -> None:
        self.fill(_ROWS, partitioned=self.has_partitions)
        expected = self.read()
        check(len(expected) == _ROWS, f"the format's own reader finds {len(expected)} rows of {_ROWS}")
        with self._planned(tmp_path) as tables:
            for parallelism in self.parallelisms:
                run = tables.run(parallelism)["t"]
                check_rows(run.rows, expected, f"{run.decision.parallelism} subtasks")

    def test_what_plan_recorded_is_read_by_every_retry_though_the_table_changes(self, tmp_path: Path) -> None:
        self.fill(_ROWS)
        before = self.read()
        with self._planned(tmp_path) as tables:
            self.append(make_rows(100, 120))
            check_rows(tables.run(3)["t"].rows, before, "planned before others appended")
            self.overwrite(make_rows(200, 210))
            check_rows(tables.run(3, "retry")["t"].rows, before, "planned before others overwrote, tried again")
        with self._planned(tmp_path / "after") as tables:
            check_rows(tables.run(3)["t"].rows, make_rows(200, 210), "planned after others overwrote")

    def test_subtasks_retries_and_recomputations_read_alike_while_others_commit(self, tmp_path: Path) -> None:
        self.fill(_ROWS)
        before = self.read()
        vertices = {"t": {"source": self.declare()}, "after": {"inputs": ["t"]}}
        with planned_tables(self.endpoint(), tmp_path / "exchange", vertices) as tables, self._committing() as commits:
            check_rows(tables.run(8)["after"].rows, before, "8 subtasks while others commit")
            check_rows(tables.run(3, "retry")["after"].rows, before, "tried again while others commit")
            done, again = tables.run_with_loss("t", 3)
            check(again > 0, "a file was lost, and nothing ran again")
            check_rows(done["after"].rows, before, "recomputed while others commit")
            seen = commits()
        check(seen >= 3, f"{seen} commits of others ended meanwhile, expected at least 3")

    @contextmanager
    def _committing(self) -> Iterator[Callable[[], int]]:
        """A writer that appends and overwrites all the time, from its first commit on; how many there were."""
        begun, over, done = Event(), Event(), list[int]()

        def write() -> None:
            while not over.is_set():
                start = 1000 + 10 * len(done)
                (self.overwrite if len(done) % 3 == 0 else self.append)(make_rows(start, start + 10))
                done.append(start)
                begun.set()

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            try:
                check(begun.wait(_SECONDS) or not writing.done(), "the writer ended at once")
                yield lambda: len(done)
            finally:
                over.set()
                writing.result(_SECONDS)

    def test_a_condition_leaves_out_files_and_never_a_row(self, tmp_path: Path) -> None:
        if not self.conditions:
            return
        self.fill(_ROWS)
        whole = self.pin(tmp_path).pinned.files
        pins = [self.pin(tmp_path, where=where).pinned for where in self.conditions]
        check(all(pin.all_files == whole for pin in pins), "all_files are not all files of the table")
        fewest = min(pin.files for pin in pins)
        check(fewest < whole, f"no condition leaves out a file: the best one reads {fewest}")
        vertices = {f"v{number}": {"source": self.declare(where=where)} for number, where in enumerate(self.conditions)}
        plain = {
            f"p{number}": {"source": self.declare(), "sql": f"SELECT * FROM {{source}} WHERE {sql}"}  # noqa: S608
            for number, sql in enumerate(self.conditions.values())
        }
        with planned_tables(self.endpoint(), tmp_path / "exchange", {**vertices, **plain}) as tables:
            run = tables.run(3)
            for number, where in enumerate(self.conditions):
                check_rows(run[f"v{number}"].rows, run[f"p{number}"].rows, f"where={where!r}")

    def _planned(self, folder: Path) -> Any:
        return planned_tables(self.endpoint(), folder / "exchange", {"t": {"source": self.declare()}})
