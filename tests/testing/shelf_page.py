"""docs/tables-of-your-own.md: its module and its tests, as they stand there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs" / "tables-of-your-own.md").read_text()
KIND, TESTS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


def load(name: str, code: str) -> Any:
    module = sys.modules[name] = ModuleType(name)
    exec(compile(code, f"{name}.py", "exec"), module.__dict__)  # noqa: S102 - our own page
    return module


shelf = load("shelf", KIND)
test_shelf = load("test_shelf", TESTS)
