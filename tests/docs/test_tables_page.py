"""docs/tables.md: the tables that a sink needs are created as the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import deltalake

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()


def test_the_tables_that_sinks_need_are_created(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    (code,) = [block for block in blocks if "create_table" in block]
    names: dict[str, Any] = {}
    exec(code.replace("/tmp/lake", str(tmp_path)), names)  # noqa: S102 - our own page
    table = names["catalog"].load_table("mart.by_region")
    assert [(field.name, str(field.field_type)) for field in table.schema().fields] == [
        ("region", "string"),
        ("amount", "decimal(25, 2)"),
    ]
    names["catalog"].close()
    (create,) = re.findall(r"`(deltalake\.DeltaTable\.create\(.*?\))`", PAGE)
    path = str(tmp_path / "by_day")
    partitioned = create.replace('["day"]', '["region"]')
    exec(partitioned, {"deltalake": deltalake, "path": path, "columns": names["columns"]})  # noqa: S102
    assert deltalake.DeltaTable(path).metadata().partition_columns == ["region"]
