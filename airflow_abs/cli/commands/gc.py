"""`airflow-abs gc`: delete what runs that are long over have left in the exchange."""

from __future__ import annotations

import re
import time

from airflow_abs.core.wording import format_bytes, format_count
from airflow_abs.exchange.paths import escape
from airflow_abs.exchange.runs.cleaning import ExpiredJob, delete_expired, find_expired

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+)([smhd])")
_SECONDS_PER_DAY = 86400


def parse_duration(text: str) -> float:
    """Seconds of `90s`, `30m`, `12h` or `7d`.

    Raises:
        ValueError: it is none of these.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"gc: an age of {text!r}; expected a number and s, m, h or d, for example 7d")
    return float(int(found[1]) * _UNITS[found[2]])


def collect_garbage(exchange: str | None, older_than_seconds: float, *, dry_run: bool) -> int:
    """Delete the jobs in which nothing has changed for so long and whose runs are over, and print them.

    Runs on a host of Airflow: which runs are not over is read from its database. `exchange` None means the one of the
    Airflow configuration.

    Raises:
        ValueError: there is no exchange, neither given nor configured.
        ExchangeUnreachableError: it cannot be listed, or a folder cannot be deleted.
    """
    from airflow_abs.hooks.storage import open_path
    from airflow_abs.settings import read_exchange

    root = open_path(read_exchange(exchange))
    now = time.time()
    expired = find_expired(root, older_than_seconds, now, _is_alive)
    if dry_run:
        for job in expired:
            print(f"would delete {_describe(job, now)}")
        return 0
    freed = 0
    deleted = 0
    for job, what in delete_expired(expired, _is_alive):
        print(f"deleted {_describe(job, now)}")
        freed += what.bytes
        deleted += 1
    print(f"{format_count(deleted, 'job')} deleted, {format_bytes(freed)} freed in {root}")
    return 0


def _describe(job: ExpiredJob, now: float) -> str:
    days = (now - job.modified) / _SECONDS_PER_DAY
    return f"{job}: {format_bytes(job.bytes)} in {format_count(job.files, 'file')}, unchanged for {days:.1f} days"


def _is_alive(dag: str, run: str) -> bool:
    """Whether a run with these escaped ids is queued or running. Asked again each time, because runs can be cleared."""
    from airflow_abs.hooks.dag_runs import unfinished_runs

    return any((escape(dag_id), escape(run_id)) == (dag, run) for dag_id, run_id in unfinished_runs())
