"""Killed at any statement, before or after the server did it, and tried again: a run's rows are in the table once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from psycopg2 import extensions

from airflow_abs.tables.postgres import connection
from tests.tables.postgres.warehouse import Warehouse

pytestmark = pytest.mark.cluster


class Killed(BaseException):
    """As if the process were gone: the server sees the end of the connection, and nothing else."""


def count_calls(monkeypatch: pytest.MonkeyPatch, kill_at: int, *, after: bool) -> list[str]:
    """Every call to the server is counted; the one of this number kills, before or after it is done."""
    made: list[str] = []

    def counted(name: str, call: Callable[[], Any]) -> Any:
        made.append(name)
        mine = len(made)
        if mine == kill_at and not after:
            raise Killed
        result = call()
        if mine == kill_at and after:
            raise Killed
        return result

    class Cursor(extensions.cursor):
        def execute(self, statement: str, values: Any = None) -> Any:
            return counted(statement, partial(super().execute, statement, values))

        def copy_expert(self, statement: str, file: Any) -> Any:
            return counted(statement, partial(super().copy_expert, statement, file))

    class Connection(extensions.connection):
        def cursor(self) -> Any:
            return super().cursor(cursor_factory=Cursor)

        def commit(self) -> None:
            counted("COMMIT", super().commit)

    connect = partial(psycopg2.connect, connection_factory=Connection)
    monkeypatch.setattr(connection.psycopg2, "connect", connect)
    return made


CASES: dict[str, tuple[dict[str, Any], list[int]]] = {
    "append": ({}, [1, 2, 13]),
    "cleared": ({}, [1, 2, 13]),
    "overwrite": ({"mode": "overwrite"}, [13]),
    "condition": ({"mode": "overwrite", "where": "id > 1"}, [1, 13]),
}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_run_that_is_killed_at_any_statement_and_tried_again_is_in_the_table_once(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, after: bool
) -> None:
    declared, expected = CASES[case]
    warehouse.execute("CREATE TABLE t (id bigint); CREATE VIEW there AS SELECT id FROM t ORDER BY id")
    target = warehouse.target(table="t", **declared)
    tried = 0
    for kill_at in range(1, 100):
        warehouse.execute("DROP TABLE IF EXISTS airflow_abs_runs; TRUNCATE t; INSERT INTO t VALUES (1), (2)")
        if case == "cleared":
            warehouse.publish(target, tmp_path, [{"id": 12}, {"id": 13}])
        with monkeypatch.context() as patch:
            made = count_calls(patch, kill_at, after=after)
            try:
                warehouse.publish(target, tmp_path, [{"id": 13}])
            except Killed:
                tried += 1
        warehouse.publish(target, tmp_path, [{"id": 13}])
        assert [row for (row,) in warehouse.execute("SELECT id FROM there")] == expected, f"killed at {made[-1]}"
        assert warehouse.execute("SELECT run, rows FROM airflow_abs_runs") == [("dag/monday/job/t", 1)]
        if len(made) < kill_at:
            break
    assert tried > 12
