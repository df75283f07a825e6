"""A day of a shop as people would meet it: names, sizes and times to look at, for screenshots and for the timeline.

`plan`, decisions and manifests are written as tasks would write them; task instances are as Airflow would have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.hot_key import HotKey
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.results.hot_key import write_hot_key
from airflow_abs.exchange.storage.whole_files import write_json
from airflow_abs.plugins.airflow_runs import RunFacts, TaskFacts
from airflow_abs.plugins.run_reader import RunReader
from tests.recorded_runs import BEGAN, OPTIONS, MadeRegion, RecordedRun

MIB = 2**20
SLOTS = 4
JOB = "shop_revenue"
_SECONDS = {"orders": 5.2, "items": 8.4, "enriched": 11.0, "by_region": 2.1, "top_customers": 3.2}
_APART = "durable: by_region and top_customers read it, and run apart"
_EDGES = (
    (
        "orders -> enriched",
        "durable: writing 412.0 MiB costs 4.5 s; inside Spark a failure would redo up to 31 s, expected 5.2 s a run",
    ),
    ("items -> enriched", "durable: the author says so (durable=True)"),
    (
        "customers -> enriched",
        "kept inside Spark: writing 18.2 MiB would cost 2.6 s; a failure here redoes at most 3.1 s, expected less than "
        "0.1 s a run",
    ),
    ("enriched -> by_region", _APART),
    ("enriched -> top_customers", _APART),
)


def sizes(region: str, index: int, subpartition: int, times: int = 7) -> int:
    """Subpartition 5 is above the others where customers meet."""
    base = {"orders": 1000, "items": 1300}.get(region, 600) * 1024
    size = base + (index * 977 + subpartition * 571) % 13 * base // 18
    return size * times if subpartition == 5 and region in ("orders", "items") else size


def shop_run(root: Path, *, failed: int | None = None, hot: bool = False) -> RecordedRun:
    """All of it; with `failed` a subtask of `enriched` did not commit, and nothing came after it; on a `hot` day one
    customer orders far too much."""
    regions = [
        MadeRegion("orders", files=(96 * MIB,) * 5),
        MadeRegion("items", files=(120 * MIB,) * 8),
        MadeRegion("enriched", inputs={"orders": Partitioning.HASH, "items": Partitioning.HASH}, before=("customers",)),
        MadeRegion("by_region", inputs={"enriched": Partitioning.HASH}, sink="/mart/revenue_by_region"),
        MadeRegion("top_customers", inputs={"enriched": Partitioning.BROADCAST}, sink="/mart/top_customers"),
    ]
    run = RecordedRun(
        JobFolder(root, "shop", "scheduled__2026-03-14", JOB),
        regions,
        partial(sizes, times=30 if hot else 7),
        replace(OPTIONS, target_bytes=128 * MIB, max_parallelism=24),
        slots=SLOTS,
        seconds=lambda region, index: _SECONDS[region] * (1 + index % 3 / 9),
        waited=lambda index: 2.3 + index % SLOTS / 9 + index // SLOTS * 8.1,
        planning=3.4,
    )
    told = run.plan.to_json()
    told["edges"] = [
        {
            "producer": ends.partition(" -> ")[0],
            "consumer": ends.partition(" -> ")[2],
            "input_name": ends.partition(" -> ")[0],
            "durable": reason.startswith("durable"),
            "reason": reason,
        }
        for ends, reason in _EDGES
    ]
    told["fused"] = {"customers": "enriched"}
    told["predictions"] = {
        name: {"seconds": seconds * 1.9, "input_bytes": 900 * MIB, "output_bytes": size * MIB, "from_history": True}
        for (name, seconds), size in zip({"customers": 0.4, **_SECONDS}.items(), (18, 160, 280, 170, 9, 2), strict=True)
    }
    told["usual"] = {
        "orders": {"median": 150 * MIB, "least": 130 * MIB, "most": 160 * MIB, "days": 8, "weekday": "Saturday"}
    }
    for region in regions:
        Path(str(run.folder.region_path(region.name))).mkdir(parents=True, exist_ok=True)
    write_json(run.folder.plan_path, told)
    for region in ("orders", "items"):
        run.run(region)
    parallelism = run.decide("enriched").parallelism
    if (found := run.stored["enriched"].hottest) is not None:
        place = (found.input, found.subpartition, found.bytes, found.median)
        key = HotKey(*place, ("customer_id",), ("4711",), 93_120, 100_000)
        write_hot_key(run.folder, "enriched", run.stored["enriched"].digest, key)
    for index in range(parallelism):
        if index != failed:
            run.commit("enriched", index)
    if failed is None:
        run.run("by_region", "top_customers")
    return run


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def task_instances(run: RecordedRun, failed: int | None = None) -> dict[str, list[TaskFacts]]:
    """As Airflow would have them: half a second of queue, a worker that starts and ends."""
    found: dict[str, list[TaskFacts]] = {}

    def add(task: str, start: float, end: float, index: int = -1, state: str = "success") -> None:
        moments = (_moment(start), _moment(end), _moment(start - 0.4))
        found.setdefault(f"{JOB}.{task}", []).append(TaskFacts(f"{JOB}.{task}", index, state, 1, *moments))

    add("plan", BEGAN, BEGAN + 3.2)
    for task in ("decide", "run"):
        found[f"{JOB}.customers.{task}"] = [TaskFacts(f"{JOB}.customers.{task}", -1, "skipped", 0, None, None)]
    for region, stored in run.stored.items():
        ready = last = stored.measured_at or 0.0
        add(f"{region}.decide", ready + 0.9, ready + 1.5)
        for index in range(stored.decision.parallelism):
            manifest = run.manifests[region].get(index)
            began = ready + run.waited(index)
            end = began + (manifest.seconds + 0.3 if manifest else 7.5)
            add(f"{region}.run", began - 0.5, end, index, "success" if manifest else "failed")
            last = max(last, end)
        if region in ("by_region", "top_customers"):
            add(f"{region}.commit", last + 0.8, last + 1.5)
    last = max(each.end.timestamp() for listed in found.values() for each in listed if each.end)
    add("release", last + 2.4, last + 3.0)
    return found


def upstream(run: RecordedRun) -> dict[str, list[str]]:
    """The edges between tasks as the task group makes them."""
    before: dict[str, list[str]] = {}
    for region in run.regions:
        producers = [f"{JOB}.{name}.run" for name in region.inputs]
        before[f"{JOB}.{region.name}.decide"] = [f"{JOB}.plan", *producers]
        before[f"{JOB}.{region.name}.run"] = [f"{JOB}.{region.name}.decide", *producers]
        before[f"{JOB}.{region.name}.commit"] = [f"{JOB}.{region.name}.run"]
    before[f"{JOB}.release"] = list(before)
    return before


def told_of(root: Path, run: RecordedRun, failed: int | None = None) -> dict[str, Any]:
    """What the page is told of it; who looks at a failed one may clear it."""
    tasks = task_instances(run, failed)
    end = max(each.end for listed in tasks.values() for each in listed if each.end) + timedelta(seconds=0.3)
    facts = RunFacts(
        "shop", run.folder.run_id, "success" if failed is None else "failed", end, _moment(BEGAN - 0.9), end
    )
    return {**RunReader(Path).read_run(facts, {JOB: str(root)}, tasks, upstream(run)), "may_clear": failed is not None}


def cleared(failed: int) -> list[dict[str, Any]]:
    """What Airflow would run again from this subtask of `enriched` on."""
    after = [("enriched.run", failed), *((f"{name}.{task}", -1) for name in ("by_region", "top_customers")
             for task in ("decide", "run", "commit")), ("release", -1)]  # fmt: skip
    return [{"task_id": f"{JOB}.{task}", "map_index": index} for task, index in after]


def thirty_days(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The runs before it, a growing shop with quiet Sundays, and this one."""
    regions = told["jobs"][0]["regions"]
    runs = []
    for day in range(30):
        of_usual = (0.25 + day / 60 + (0.1 if day % 7 == 5 else 0)) * (0.5 if day % 7 == 6 else 1) if day < 29 else 1.0
        jobs = {
            region["name"]: {
                "parallelism": max(1, round(region["parallelism"] * of_usual)),
                "bytes_in": round(region["bytes_in"] * of_usual),
                "divided_bytes": round(region["divided_bytes"] * of_usual),
                "seconds": region["took"] and region["took"] * of_usual,
                "predicted_seconds": region["predicted"] and region["predicted"]["seconds"] * (of_usual * 0.9 + 0.05),
            }
            for region in regions
            if region["parallelism"]
        }
        date = datetime(2026, 2, 13, tzinfo=UTC) + timedelta(days=day)
        run_id = told["run_id"] if day == 29 else f"scheduled__{date:%Y-%m-%d}"
        runs.append({"run_id": run_id, "state": "success", "date": date.isoformat(), "jobs": {JOB: jobs}})
    return runs
