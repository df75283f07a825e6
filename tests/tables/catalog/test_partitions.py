"""Partition values as the catalog has them and as Spark writes them."""

from __future__ import annotations

from typing import Any

from airflow_abs.tables.catalog.partitions import as_written


class Catalog:
    """Of a Spark server with ``spark.sql.ansi.enabled=false``."""

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return [(0, "1.0E-7", "1.0E-7"), (1, None, None), (2, "12.50000000", "x")]


def test_small_decimals_have_one_text_with_and_without_ansi_mode() -> None:
    listed = [("0.00000010", "1.0E-7"), (None, None), ("12.50000000", "x")]
    types = {"price": "decimal(10,8)", "name": "string"}
    assert as_written("d.t", Catalog(), types, listed) == listed  # type: ignore[arg-type]
