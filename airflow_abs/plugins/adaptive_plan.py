"""The Airflow plugin: a tab "Adaptive plan" on every DAG run, and the macro of `LAST_COMPLETE_DAY`.

Loaded by every Airflow process through the entry point `airflow.plugins`, so nothing is imported here that is not
there anyway: the pages' application is built when the first request for it comes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_abs.execution.links import PLAN_ROUTE, AdaptivePlanLink
from airflow_abs.plugins.last_complete_day import last_complete_day

URL_PREFIX = "/adaptive_spark"

Scope = MutableMapping[str, Any]


class LazyApp:
    """An ASGI application that is built by its first request."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build
        self._app: Any = None

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if self._app is None:
            self._app = self._build()
        await self._app(scope, receive, send)


def _build_app() -> Any:
    from airflow_abs.plugins.app import build_app

    return build_app()


class AdaptivePlanPlugin(AirflowPlugin):
    """See docs/seeing-a-run.md."""

    name = "adaptive_spark"
    fastapi_apps = [  # noqa: RUF012 - the base class declares instance attributes
        {"app": LazyApp(_build_app), "url_prefix": URL_PREFIX, "name": "Adaptive plan"},
    ]
    external_views = [  # noqa: RUF012
        {
            "name": "Adaptive plan",
            "href": f"{URL_PREFIX}/plan?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": PLAN_ROUTE,
        },
    ]
    operator_extra_links = [AdaptivePlanLink()]  # noqa: RUF012
    macros = [last_complete_day]  # noqa: RUF012
