"""What a source may be pruned by, and what folders say of it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_abs import DeltaTable, Files, IcebergTable
from airflow_abs.core.pruning.value_ranges import Span
from airflow_abs.exchange.sources.partitions import span_in_folders
from airflow_abs.exchange.sources.pruned_by import VertexColumn, pruning_kind

D = VertexColumn("dates", "d")


@pytest.mark.parametrize(
    "declared",
    [Files("/lake", prune={"day": D}), IcebergTable("a.b.c", prune={"day": D}), DeltaTable("/lake", prune={"day": D})],
)
def test_a_declaration_comes_back_from_its_json(declared: Any) -> None:
    value = declared.to_json()
    assert value["prune"] == {"day": {"vertex": "dates", "column": "d"}}
    assert type(declared)(**value) == declared


@pytest.mark.parametrize("prune", [{"day": "dates.d"}, {"": D}, ["day"], {"day": {"vertex": "dates"}}])
def test_what_is_no_column_of_a_vertex_is_refused(prune: Any) -> None:
    with pytest.raises(ValueError, match=r"prune is .*; expected columns of the source, each with the column of"):
        Files("/lake", prune=prune)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("short", "integer"),
        ("long", "integer"),
        ("date", "date"),
        ("decimal(9,2)", "decimal(9,2)"),
        ("double", None),
        ("boolean", None),
        ({"type": "struct", "fields": []}, None),
    ],
)
def test_columns_are_compared_within_one_kind(kind: Any, expected: str | None) -> None:
    assert pruning_kind(kind) == expected


@pytest.mark.parametrize(
    ("path", "kind", "span"),
    [
        ("/lake/day=2026-01-02/x.parquet", "date", (20455,)),
        ("/lake/day=2026-1-2/x.parquet", "date", None),  # Spark takes it for a date
        ("/lake/day=2026-02-31/x.parquet", "date", None),
        ("/lake/day=007/x.parquet", "integer", (7,)),
        ("/lake/day=7.0/x.parquet", "integer", None),
        ("/lake/day=a%3Ab/x.parquet", "string", ("a:b",)),
        ("/lake/day=__HIVE_DEFAULT_PARTITION__/x.parquet", "string", ()),
        ("/lake/other=1/x.parquet", "string", None),
        ("/lake/x.parquet", "string", None),
        ("/lake/day=1/x.parquet", "decimal(9,2)", None),
    ],
)
def test_folders_say_what_is_certain_of_a_column(path: str, kind: str, span: Span | None) -> None:
    assert span_in_folders(Files("/lake"), f"file://{path}", "day", kind) == span
