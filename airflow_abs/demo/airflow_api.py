"""A client of a running Airflow's REST API v2: runs, task instances, logs.

Not Airflow's own `apache-airflow-client`, which is generated for one release: it has neither the login that gives the
token nor anything that waits, pages or makes lines of a log, so it would replace `request` and the names of JSON keys,
at 218 modules (3.3 MB) and a second of CPU for its import. httpx is there with Airflow and takes a tenth of that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    import httpx

ENDED = frozenset({"success", "failed"})
POLL_SECONDS = 0.5
# A DAG that is missing beside a broken file has this long to turn up: the broken file may be another one.
BROKEN_FILE_SECONDS = 10.0
PAGE = 100
# Said once by the request, repeated by Airflow in every event; the first three open the line.
LOG_IDENTITY = frozenset(
    [
        "timestamp",
        "level",
        "event",
        "dag_id",
        "run_id",
        "task_id",
        "map_index",
        "try_number",
        "ti_id",
        "ti",
        "logger",
        "filename",
        "lineno",
    ]
)


class AirflowApiError(RuntimeError):
    """Airflow answered a request with an error, or did not come to the awaited state in time."""


@dataclass(frozen=True, slots=True)
class SubtaskState:
    """One task instance as Airflow shows it. `map_index` is -1 for a task that is not mapped; `id` is its try's own."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    start: datetime | None
    end: datetime | None
    id: str = ""

    @property
    def seconds(self) -> float | None:
        """From the first start to the end, deferred time included; None while it runs."""
        return (self.end - self.start).total_seconds() if self.start and self.end else None


Progress = Callable[[list[SubtaskState]], None]


class AirflowApi:
    """Requests to the API server at `url` as the bearer of `token`; without one as the SimpleAuthManager's admin, which
    all users are where none has to log in.
    """

    def __init__(self, url: str, *, timeout: float = 120.0, token: str = "") -> None:
        import httpx

        self.url = url
        # Loopback: a proxy from the environment would only be in the way. A busy machine may take a minute to answer.
        self._http: httpx.Client = httpx.Client(base_url=url, timeout=timeout, trust_env=False)
        if token:
            self._http.headers["Authorization"] = f"Bearer {token}"

    def close(self) -> None:
        self._http.close()

    def health(self) -> dict[str, Any]:
        """`{"scheduler": {"status": "healthy", ...}, "triggerer": ..., "dag_processor": ..., "metadatabase": ...}`."""
        return dict(self._http.get("/api/v2/monitor/health").raise_for_status().json())

    def import_errors(self) -> dict[str, str]:
        """Stack traces of the DAG files that could not be read, by file name."""
        found = self.request("GET", "/importErrors")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in found}

    def wait_for_dag(self, dag_id: str, seconds: float) -> None:
        """Until the DAG can be run.

        Raises:
            AirflowApiError: the time is over, which is soon if a DAG file cannot be imported; with its stack trace.
        """
        started = time.monotonic()
        while self._send("GET", f"/dags/{quote(dag_id)}").status_code != 200:
            errors = self.import_errors()
            if time.monotonic() > started + (min(seconds, BROKEN_FILE_SECONDS) if errors else seconds):
                told = "".join(f"\n{name}:\n{trace}" for name, trace in sorted(errors.items()))
                raise AirflowApiError(
                    f"dag {dag_id!r} is not there after at most {seconds:g} s; expected it in Airflow at {self.url}"
                    + (f"; these files could not be imported:{told}" if told else "; see the log of the dag-processor")
                )
            time.sleep(POLL_SECONDS)

    def trigger_run(
        self, dag_id: str, logical_date: datetime, conf: Mapping[str, Any] | None = None, run_id: str | None = None
    ) -> str:
        """Start a manual run; returns its run id."""
        body: dict[str, Any] = {"logical_date": logical_date.isoformat(), "conf": dict(conf or {})}
        if run_id is not None:
            body["dag_run_id"] = run_id
        return str(self.request("POST", f"/dags/{quote(dag_id)}/dagRuns", json=body)["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.request("GET", run_path(dag_id, run_id))["state"])

    def wait_for_run(self, dag_id: str, run_id: str, seconds: float, on_progress: Progress | None = None) -> str:
        """`success` or `failed`; `on_progress` gets the run's task instances at every look.

        Raises:
            AirflowApiError: the run is not over after `seconds`; with what it was doing.
        """
        deadline = time.monotonic() + seconds
        while True:
            state = self.run_state(dag_id, run_id)
            if on_progress is not None:
                on_progress(self.task_instances(dag_id, run_id))
            if state in ENDED:
                return state
            if time.monotonic() > deadline:
                open_ones = [
                    f"{each.task_id}[{each.map_index}] {each.state}"
                    for each in self.task_instances(dag_id, run_id)
                    if each.state not in {"success", None}
                ]
                raise AirflowApiError(
                    f"run {run_id!r} of dag {dag_id!r} is {state} after {seconds:g} s; expected an end; "
                    f"at that time: {', '.join(open_ones) or 'no task started'}"
                )
            time.sleep(POLL_SECONDS)

    def task_instances(self, dag_id: str, run_id: str) -> list[SubtaskState]:
        """All task instances of the run, by task and map index."""
        rows = self._pages(f"{run_path(dag_id, run_id)}/taskInstances", "task_instances")
        states = [
            SubtaskState(
                row["task_id"],
                row["map_index"],
                row["state"],
                row["try_number"],
                _time(row["start_date"]),
                _time(row["end_date"]),
                row["id"],
            )
            for row in rows
        ]
        return sorted(states, key=lambda each: (each.task_id, each.map_index))

    def task_log(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1, try_number: int = 1) -> str:
        """The log of one try, one event per line: its time, level, text and whatever else it carries."""
        path = f"{run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/logs/{try_number}"
        content = self.request("GET", path, params={"map_index": map_index, "full_content": True})["content"]
        return "\n".join(_log_line(event) for event in content)

    def task_error(self, dag_id: str, run_id: str, task_id: str) -> str:
        """What the last try of a task failed with, in the words of its exception; "" if its log does not say."""
        path = f"{run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}"
        number = self.request("GET", path)["try_number"]
        content = self.request("GET", f"{path}/logs/{number}", params={"full_content": True})["content"]
        told = [
            str(detail.get("exc_value", ""))
            for event in content
            if isinstance(event, dict)
            for detail in event.get("error_detail") or []
        ]
        return next(iter(told), "")

    def request(self, method: str, path: str, **options: Any) -> Any:
        """JSON answer of any endpoint below `/api/v2`.

        Raises:
            AirflowApiError: a status of 400 or above, with Airflow's explanation.
        """
        answer = self._send(method, path, **options)
        # Airflow notes on its event loop who asks for a change. On SQLite a request that is writing at that moment can
        # not go on meanwhile, and both wait until SQLite gives this one up. It has changed nothing.
        if answer.status_code == 500 and '"Database error"' in answer.text:
            answer = self._send(method, path, **options)
        if answer.status_code >= 400:
            raise AirflowApiError(f"{method} {path} at {self.url}: status {answer.status_code}: {answer.text[:2000]}")
        return answer.json() if answer.content else None

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        import httpx

        try:
            if "Authorization" not in self._http.headers:
                token = self._http.get("/auth/token").raise_for_status().json()["access_token"]
                self._http.headers["Authorization"] = f"Bearer {token}"
            return self._http.request(method, f"/api/v2{path}", **options)
        except httpx.HTTPError as error:
            raise AirflowApiError(f"{method} {path} at {self.url}: no answer: {error!r}; is Airflow up?") from error

    def _pages(self, path: str, key: str) -> Iterator[dict[str, Any]]:
        offset = 0
        while True:
            page = self.request("GET", path, params={"limit": PAGE, "offset": offset})
            yield from page[key]
            offset += PAGE
            if offset >= page["total_entries"]:
                return


def run_path(dag_id: str, run_id: str) -> str:
    """Of a run's endpoints, for `request`."""
    return f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _log_line(event: str | dict[str, Any]) -> str:
    if isinstance(event, str):
        return event
    rest = {key: value for key, value in event.items() if key not in LOG_IDENTITY and value}
    errors = rest.pop("error_detail", None) or []
    opening = [str(event[key]) for key in ("timestamp", "level", "event") if event.get(key)]
    return "\n".join([" ".join([*opening, *([str(rest)] if rest else [])]), *map(_error_lines, errors)])


def _error_lines(error: Mapping[str, Any]) -> str:
    frames = [f"    {frame['filename']}:{frame['lineno']} {frame['name']}" for frame in error.get("frames") or []]
    return "\n".join([*frames, f"  {error.get('exc_type')}: {error.get('exc_value')}"])
