"""A catalog on SQLite, made anew for each test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

PROPERTIES = dict[str, str]


@pytest.fixture
def properties(tmp_path: Path) -> PROPERTIES:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}


@pytest.fixture
def catalog(properties: PROPERTIES) -> Any:
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("db")
    yield catalog
    catalog.close()
