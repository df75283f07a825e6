"""Runs whose names Spark takes for secrets, published to a table of a real catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_abs import Table
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.tables.declared import find_targets
from airflow_abs.tables.publishing.publication import publish_staged
from airflow_abs.testing.table_contract import stage_file, table_access
from tests.tables.catalog.warehouse import Warehouse

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

WORDS = ("url", "token", "secret", "password", "access.key")
"""Those of ``spark.redaction.regex``."""


def check_hidden_names(warehouse: Warehouse, server: ConnectEndpoint, folder: Path) -> None:
    """Each is published once, is known when it comes again, and keeps no other run from publishing."""
    warehouse.create("t", pa.schema([("id", pa.int64())]))
    access = table_access(lambda: server)
    target = find_targets({"t": Table(f"{warehouse.database}.t")}, access)["t"]

    def publish(word: str, number: int) -> dict[str, Any]:
        publisher = Publisher(f"prod:hourly_{word}/monday/{word}", 1)
        staged = [stage_file(folder / word, pa.table({"id": [number]}))]
        return publish_staged(target, staged, publisher=publisher, access=access)

    for number, word in enumerate(WORDS):
        assert publish(word, number)["changed"] is True
    for number, word in enumerate(WORDS):
        assert publish(word, number)["changed"] is False
    publish(WORDS[0], 10)  # cleared
    assert sorted(warehouse.read("t")["id"].to_pylist()) == [1, 2, 3, 4, 10]
    shown = warehouse.run("SHOW TBLPROPERTIES {db}.t")
    marks = [text for name, text in shown if name.startswith("airflow-abs.run.")]
    assert len(marks) == len(WORDS)
    assert not any("redacted" in text for text in marks)
