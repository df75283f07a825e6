"""A run as cleaning finds it: every file of the layout, with a readable plan."""

from __future__ import annotations

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import encode_json, write_atomic

PLAN = encode_json({"id": "p", "regions": []})


def fill(job: JobFolder) -> None:
    for region in ("orders", "attempt-1"):  # a region may be named like a folder of the layout
        write_atomic(job.manifest_path(region, 0), b"m")
        write_atomic(job.step_path(region, 0), b"ss")
        for attempt in (1, 2):
            write_atomic(job.result_path(region, 0, attempt, "r") / "part-0.parquet", b"ddd")
            write_atomic(job.result_path(region, 0, attempt, "r") / "manifest.json", b"ddd")
    write_atomic(job.decision_path("orders"), b"d")
    write_atomic(job.plan_path, PLAN)


def names_below(path: ExchangePath) -> list[str]:
    location = locate(path)
    location.forget_listings()
    return sorted(location.at(name).relative_to(location) for name in location.fs.find(location.path))
