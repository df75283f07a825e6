"""How much is read: what counts on a slow storage, and is the same on every machine."""

from __future__ import annotations

import pytest

from airflow_abs.exchange.storage import whole_files
from airflow_abs.exchange.storage.locations import Location


def record_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gets the path of every file that is read whole from now on, each time it is."""
    read: list[str] = []
    really_read = whole_files._read

    def recording(location: Location) -> bytes:
        read.append(str(location))
        return really_read(location)

    monkeypatch.setattr(whole_files, "_read", recording)
    return read
