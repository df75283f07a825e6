"""Killed at any call to the log or to storage, and tried again: a run's rows are in the table once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable as Library

from airflow_abs.tables.delta.storage import TableFolder
from tests.tables.delta.staging import create, publish, row, rows_of, stage, target_of
from tests.tables.killing import Killed, count_calls

CALLS: list[tuple[Any, str]] = [
    (Library, "__init__"),
    (Library, "transaction_version"),
    (Library, "get_add_actions"),
    (Library, "create_write_transaction"),
    (TableFolder, "create"),
    (TableFolder, "open"),
]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
def test_a_run_that_is_killed_at_any_call_and_tried_again_is_in_the_table_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, after: bool
) -> None:
    tried = 0
    for kill_at in range(1, 100):
        table = tmp_path / f"t{kill_at}"
        create(table, [row(1, "old"), row(0)], partition_by=["region"])
        target = target_of(table, mode)
        staged = [stage(tmp_path / f"s{kill_at}", [row(number)], "__partition_0=vnorth") for number in (2, 3)]
        with monkeypatch.context() as patch:
            made = count_calls(patch, CALLS, kill_at, after=after)
            try:
                publish(target, staged, "monday")
            except Killed:
                tried += 1
        done = publish(target, staged, "monday")
        kept = {"append": [(0, "north"), (1, "old")], "overwrite": [], "overwrite_partitions": [(1, "old")]}[mode]
        assert rows_of(table) == sorted([*kept, (2, "north"), (3, "north")], key=str), f"killed at {made[-1]}"
        assert done["version"] == Library(table).version() == 1
        if len(made) < kill_at:
            break
    assert tried > 7
