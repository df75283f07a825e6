"""The contract of tables: a kind that keeps it passes, and one that breaks it in any way does not."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.tables import Inferred, Published
from airflow_abs.testing import local
from tests.testing.shelf_page import shelf, test_shelf

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

ShelfTable = shelf.ShelfTable


@pytest.mark.spark
class TestShelfTable(test_shelf.TestShelfTable):  # type: ignore[misc]
    """As a reader of the page would run it, on the suite's own server."""

    @pytest.fixture(autouse=True)
    def _server(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
        monkeypatch.setattr(local, "embedded_endpoint", lambda: request.getfixturevalue("connect_server"))


class _Sizeless(ShelfTable):
    def pin(self, access: Any) -> Any:
        found = super().pin(access)
        return replace(found, files=tuple(replace(file, bytes=1) for file in found.files))


class _Wandering(ShelfTable):
    """Asks the shelf anew, instead of what `plan` fixed."""

    async def infer(self, context: Any) -> Any:
        return Inferred(super().pin(context.access).files)


class _Unnamed(ShelfTable):
    asset_uri = None


class _Forgetful(ShelfTable):
    """Does not look whether the run is there."""

    @staticmethod
    def publish(target: Any, run: Any, access: Any, on_step: Any) -> Any:
        number, version = shelf.newest(target.table)
        copied = [shelf.copy(file, target.table, run.identity) for file in run.files]
        on_step("copied")
        shelf.create(target.table, number + 1, version | {"files": version["files"] + copied})
        on_step("committed")
        return Published(changed=True)


class _HalfDone(ShelfTable):
    """Puts files into the table one after the other."""

    @staticmethod
    def publish(target: Any, run: Any, access: Any, on_step: Any) -> Any:
        for file in run.files:
            publisher = Publisher(f"{run.identity}/{file.name}")
            one = replace(run, publisher=publisher, digest=file.name, files=(file,))
            ShelfTable.publish(target, one, access, on_step)
        return Published(changed=True)


class _Careless(ShelfTable):
    """Overwrites whatever it finds, seen or not."""

    @staticmethod
    def publish(target: Any, run: Any, access: Any, on_step: Any) -> Any:
        while True:
            try:
                return ShelfTable.publish(target, run, access, on_step)
            except shelf.CommitConflictError:
                continue


BROKEN = [
    (_Sizeless, "test_the_sizes_are_those_of_the_files", "and 1 were told"),
    (_Wandering, "test_it_infers_what_plan_fixed_though_the_table_changes", "and 1 are not those of plan"),
    (_Unnamed, "test_its_asset_is_one_that_airflow_takes_and_the_same_for_every_run", "it has no asset_uri"),
    (_Forgetful, "test_a_run_is_in_the_table_once_however_often_it_is_published", "publication 2 told changed=True"),
    (_HalfDone, "test_a_run_is_in_the_table_once_however_often_it_is_published", "publication 2 told changed=True"),
    (_HalfDone, "test_a_run_that_was_cleared_replaces_what_it_published_before", "monday cleared, with other rows: 15"),
    (_Careless, "test_rows_that_others_append_meanwhile_are_not_overwritten_unseen", "were overwritten unseen"),
]


def contract_of(kind: type[Any], folder: Path) -> Any:
    contract = test_shelf.TestShelfTable()
    contract.path = str(folder / "shelf")
    contract.declare = lambda **arguments: kind(contract.path, **arguments)
    return contract


@pytest.mark.parametrize(("kind", "test", "message"), BROKEN)
def test_a_kind_that_breaks_the_contract_fails_it(kind: type[Any], test: str, message: str, tmp_path: Path) -> None:
    run = getattr(contract_of(kind, tmp_path), test)
    with pytest.raises(AssertionError, match=message):
        run(**({"tmp_path": tmp_path} if "tmp_path" in signature(run).parameters else {}))


@pytest.mark.spark
def test_a_kind_whose_files_change_under_their_names_is_not_pinned(
    tmp_path: Path, connect_server: ConnectEndpoint
) -> None:
    contract = contract_of(ShelfTable, tmp_path)
    contract.endpoint = lambda: connect_server
    append = contract.append

    def append_in_place(rows: Any) -> None:
        if rows["id"][0].as_py() < 100:
            return append(rows)
        first = shelf.newest(contract.path)[1]["files"][0]["name"]
        return pq.write_table(rows, f"{contract.path}/{first}")

    contract.append = append_in_place
    with pytest.raises(AssertionError, match="planned before others appended: 70 rows, expected 60"):
        contract.test_what_plan_recorded_is_read_by_every_retry_though_the_table_changes(tmp_path)
