from __future__ import annotations

from pathlib import Path

import pytest

from tests.exchange.records.stored_records import copy_run


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_run(tmp_path_factory.mktemp("damaged"))
