"""Killed at any call to the catalog or to storage, and tried again: a run's rows are in the table once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile

from tests.tables.iceberg.staging import SCHEMA, publish, row, rows_of, stage, target_of
from tests.tables.killing import Killed, count_calls

CALLS: list[tuple[Any, str]] = [
    (SqlCatalog, "load_table"),
    (SqlCatalog, "commit_table"),
    (PyArrowFile, "create"),
    (PyArrowFile, "open"),
]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_run_that_is_killed_at_any_call_and_tried_again_is_in_the_table_once(
    catalog: Any, properties: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, after: bool
) -> None:
    tried = 0
    for kill_at in range(1, 100):
        name = f"db.t{kill_at}"
        table = catalog.create_table(name, SCHEMA)
        table.append(pa.table({"id": [1], "region": ["old"]}))
        target = replace(target_of(table, mode), table=f"lake.{name}")
        staged = [stage(tmp_path / name, table, [row(2)]), stage(tmp_path / name, table, [row(3)])]
        with monkeypatch.context() as patch:
            made = count_calls(patch, CALLS, kill_at, after=after)
            try:
                publish(properties, target, staged, "monday")
            except Killed:
                tried += 1
        done = publish(properties, target, staged, "monday")
        kept = [(1, "old")] if mode == "append" else []
        assert rows_of(table) == [*kept, (2, "north"), (3, "north")], f"killed at call {kill_at} ({made[-1]})"
        assert done["snapshot"] == table.current_snapshot().snapshot_id
        if len(made) < kill_at:
            break
    assert tried > 10
