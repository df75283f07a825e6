"""How much is read: what counts on a slow storage, and is the same on every machine."""

from __future__ import annotations

import pytest

from airflow_abs.exchange.records import decisions, plan
from airflow_abs.exchange.storage import whole_files
from airflow_abs.exchange.storage.locations import ExchangePath


def record_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gets the path of every plan, decision and manifest that is read from now on, each time it is."""
    read: list[str] = []
    really_read = whole_files.read_bytes

    def recording(path: ExchangePath) -> bytes:
        read.append(str(path))
        return really_read(path)

    for module in (whole_files, plan, decisions):  # whoever calls it by its bare name
        monkeypatch.setattr(module, "read_bytes", recording)
    return read
