"""Paths on any storage that Airflow knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_abs.exchange.storage.locations import ExchangePath


def open_path(uri: str) -> ExchangePath:
    """The path behind a URI (or a local path), with the connection that it names; nothing is read yet.

    Raises:
        ValueError: it names no place; see `for_airflow`.
    """
    from airflow.sdk import ObjectStoragePath

    from airflow_abs.exchange.storage.uris import for_airflow

    return ObjectStoragePath(for_airflow(uri))
