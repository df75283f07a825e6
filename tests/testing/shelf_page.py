"""docs/examples: the kind of table that docs/tables-of-your-own.md describes, and its tests."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def load(name: str) -> Any:
    module = sys.modules[name] = ModuleType(name)
    code = (EXAMPLES / f"{name}.py").read_text()
    exec(compile(code, f"{name}.py", "exec"), module.__dict__)  # noqa: S102 - our own example
    return module


shelf = load("shelf")
test_shelf = load("test_shelf")
