"""What a Spark server tells of an operation over HTTP and Connect does not: its plan as it ran, with Spark's metrics.

That is the REST API of Spark's UI. It is there where the UI is on and this host reaches it; what it tells is shown and
remembered, and nothing is decided by it.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.operations import get_config

_ANSWER_SECONDS = 5.0
_FIRST_ANSWER_SECONDS = 20.0
"""The first request makes Spark load its REST API."""
_MOST_BYTES = 64 * 2**20
_LISTED = 1000
"""Executions and jobs that Spark keeps by default (`spark.sql.ui.retainedExecutions`)."""


class NotToldError(Exception):
    """Why the server's UI does not tell of an operation, in a few words."""


@dataclass(frozen=True, slots=True)
class WebUi:
    """The REST API of one Spark application; every call blocks, for seconds at most.

    Args:
        address: its root, such as ``http://10.0.0.7:4040/api/v1/applications/local-1767225600000``.
    """

    address: str

    def execution_of(self, operation_id: str) -> Mapping[str, Any]:
        """What Spark's page SQL shows of a Connect operation: plan, nodes with metrics, edges.

        Raises:
            NotToldError: the UI does not answer, or knows nothing of the operation.
        """
        jobs = {
            job["jobId"]
            for job in self._get("jobs")
            if any(tag.endswith(f"_Operation_{operation_id}") for tag in job.get("jobTags", ()))
        }
        listed = self._get(f"sql?details=false&planDescription=false&offset=0&length={_LISTED}")
        for each in reversed(listed):
            if not jobs.isdisjoint([*each["successJobIds"], *each["runningJobIds"]]):
                found: Mapping[str, Any] = self._get(f"sql/{each['id']}?details=true&planDescription=true")
                return found
        raise NotToldError("Spark's UI no longer knows the operation")

    def _get(self, what: str) -> Any:
        return _get(f"{self.address}/{what}")


async def find_ui(connection: Connection, session_id: str) -> WebUi:
    """Address of the UI of a session's server; takes seconds where no server answers.

    Raises:
        NotToldError: it is off, or does not answer from here.
        SparkOperationError: the server does not answer.
    """
    keys = ["spark.app.id", "spark.ui.enabled", "spark.ui.port", "spark.driver.host"]
    found = await get_config(connection, session_id, keys)
    if found["spark.ui.enabled"] == "false":
        raise NotToldError("Spark's UI is off")
    port, application = found["spark.ui.port"] or "4040", found["spark.app.id"]
    for each in dict.fromkeys(filter(None, [found["spark.driver.host"], connection.endpoint.host])):
        address = f"http://{each}:{port}/api/v1/applications/{application}"
        try:
            await asyncio.to_thread(_get, address, _FIRST_ANSWER_SECONDS)
        except NotToldError:
            continue
        return WebUi(address)
    raise NotToldError("Spark's UI cannot be reached from here")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What another server says is not this one's."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _get(address: str, seconds: float = _ANSWER_SECONDS) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
    try:
        with opener.open(address, timeout=seconds) as answer:
            return json.loads(answer.read(_MOST_BYTES))
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise NotToldError("Spark's UI does not answer") from error
