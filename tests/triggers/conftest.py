"""What triggers push."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What would be pushed as XCom: value and place by key. No Airflow answers here."""
    from airflow.sdk.execution_time.xcom import XCom

    values: dict[str, Any] = {}

    async def aset(key: str, value: Any, **place: Any) -> None:
        values[key] = (value, place)

    monkeypatch.setattr(XCom, "aset", aset)
    return values
