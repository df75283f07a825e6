"""Airflow's section `[adaptive_spark]`: the defaults of jobs, and what one installation sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.settings import SECTION, HostSettings, JobSettings, section_settings, settings_of


def read_job_settings(given: Mapping[str, Any]) -> JobSettings:
    """What the section says, replaced by every setting that is given and not None.

    Raises:
        InvalidValueError: a value is outside what its meaning allows.
    """
    return JobSettings(**_configured(JobSettings) | {name: each for name, each in given.items() if each is not None})


def read_host_settings() -> HostSettings:
    """What else the section says.

    Raises:
        InvalidValueError: a value is outside what its meaning allows.
    """
    return HostSettings(**_configured(HostSettings))


def read_exchange(given: str | None = None) -> str:
    """The URI that is given, else the one of the section.

    Raises:
        InvalidValueError: there is none.
    """
    exchange = read_host_settings().exchange if given is None else given
    if not exchange:
        raise InvalidValueError(
            "no exchange is set; give AdaptiveSparkJob(exchange='s3://bucket/exchange') or the Airflow option "
            f"[{SECTION}] exchange a path that Airflow and Spark both reach"
        )
    return exchange


def _configured(kind: type) -> dict[str, Any]:
    """Configured texts."""
    from airflow_abs.airflow_abilities import conf

    return {
        name: text
        for name, _ in settings_of(kind)
        if name in section_settings() and (text := conf.get(SECTION, name, fallback=""))
    }
