"""What the triggerer loads and what it hands to the worker."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import airflow_abs

PACKAGE = Path(airflow_abs.__file__).parent
# Compiling registers the DAG file's module to travel by value; what is made there is read by Spark alone.
MAY_NAME_PICKLE = {"spark/compile/vertices.py", "spark/stream/compile.py"}


@pytest.mark.parametrize("module", ["pickle", "cloudpickle", "marshal", "shelve", "dill"])
def test_nothing_that_reads_back_stored_files_can_unpickle(module: str) -> None:
    importing = {
        str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Import) and any(name.name.split(".")[0] == module for name in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == module)
    }
    assert importing <= MAY_NAME_PICKLE
