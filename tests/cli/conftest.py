from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def assert_golden() -> Callable[[str, str], None]:
    """Compare a text with a file in `golden/`; `UPDATE_GOLDEN=1 pytest` writes what is shown instead."""

    def check(name: str, shown: str) -> None:
        path = GOLDEN / name
        if os.environ.get("UPDATE_GOLDEN"):
            path.write_text(shown)
        assert shown == path.read_text(), f"{path} differs; if the new text is right: UPDATE_GOLDEN=1 pytest {__file__}"

    return check
