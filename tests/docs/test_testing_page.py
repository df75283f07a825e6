"""docs/testing.md: its DAG and its test, run as they stand there."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from airflow_abs.testing import local

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
DAG_FILE, TEST_FILE = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def tests_of_the_page(
    monkeypatch: pytest.MonkeyPatch, connect_server: ConnectEndpoint
) -> dict[str, Callable[[], None]]:
    monkeypatch.setattr(local, "embedded_endpoint", lambda: connect_server)  # the suite's own, instead of one more
    module = ModuleType("revenue")
    monkeypatch.setitem(sys.modules, "revenue", module)
    exec(DAG_FILE, module.__dict__)  # noqa: S102 - our own page
    names: dict[str, Any] = {}
    exec(TEST_FILE, names)  # noqa: S102
    return {name: value for name, value in names.items() if name.startswith("test_")}


def test_the_tests_of_the_page_pass(tests_of_the_page: dict[str, Callable[[], None]]) -> None:
    assert len(tests_of_the_page) == 2
    for run in tests_of_the_page.values():
        run()
