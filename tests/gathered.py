"""Arguments of jobs and vertices, with the settings among them gathered into their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_abs import JobOptions, VertexOptions
from airflow_abs.core.settings import settings_of


def job_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    return _gather(JobOptions, given)


def vertex_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    return _gather(VertexOptions, given)


def _gather(kind: type[JobOptions | VertexOptions], given: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: given[name] for name, _ in settings_of(kind) if name in given}
    others = {name: value for name, value in given.items() if name not in own}
    return {**others, "options": kind(**own)} if own else others
