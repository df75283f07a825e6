"""Paths on any storage that Airflow knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_abs.exchange.storage.locations import ExchangePath


def open_path(uri: str) -> ExchangePath:
    """The path behind a URI (or a local path), with the connection that it names; nothing is read yet."""
    from airflow.sdk import ObjectStoragePath

    return ObjectStoragePath(uri)
