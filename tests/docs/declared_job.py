"""A job as a page declares it, to be run."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest


def declared_job(dag_file: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the DAG file calls `variable`; its module can be imported until the test is over."""
    module = ModuleType("dag_file_of_a_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(dag_file, module.__dict__)  # noqa: S102 - our own page
    return module.__dict__[variable]
