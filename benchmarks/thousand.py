"""A thousand subtasks in one region, started in the triggerer: seconds, CPU of each component, sizes, and the page."""

from __future__ import annotations

import json
import re
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import duckdb

from benchmarks.compare import Comparison, open_arena
from benchmarks.cpu_time import adopt_orphans
from benchmarks.peers import Arena
from benchmarks.subtasks import COMPONENTS, SETTLE_SECONDS, write_rows

SUBTASKS = 1000
ROWS = 2000
KEYS = 500
_BLOCKED = re.compile(r"async thread was blocked for ([\d.]+) seconds")


def run(subtasks: int = SUBTASKS) -> list[dict[str, int | float]]:
    """One row for subtasks that do nothing, one for subtasks that read rows, map and shuffle them into a table of sums.

    `subtasks` of the whole run, `seconds` of it, CPU seconds by component, `first` how many of them the triggerer used
    for a run of one before (its first deferral), `blocked_ms` how long at most the triggerer's event loop was late
    (0: never more than Airflow's threshold of 200 ms), kilobytes of all records and XComs of the run, `xcom_bytes` the
    median of a subtask's, and of the page's JSON kilobytes and milliseconds, read for the first and a second time.
    """
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-") as name:
        data = Path(name)
        write_rows(data / "1" / "noops_1", 1)
        write_rows(data / "1" / f"noops_{subtasks}", subtasks)
        write_sales(data / "1" / f"sums_{subtasks}", subtasks)
        with open_arena(Comparison([], (), 1, 1, data=data)) as arena:
            first, *_ = _run(arena, "noops_1_in_triggerer")
            rows = []
            for kind in ("noops", "sums"):
                rows.append({"first": first["triggerer"], **_measure(arena, f"{kind}_{subtasks}_in_triggerer")})
                print(json.dumps(rows[-1]), flush=True)
            check_sums(data / "1" / f"sums_{subtasks}", arena.folder / "out" / f"sums_{subtasks}_in_triggerer")
    return rows


def write_sales(folder: Path, count: int) -> None:
    """`count` files of `ROWS` rows each, every key in every file."""
    folder.mkdir(parents=True)
    for number in range(count):
        columns = f"(i * 7 + {number}) % {KEYS} AS key, i + {number} AS amount"
        duckdb.sql(f"FROM range({ROWS}) AS _(i)").project(columns).write_parquet(f"{folder}/{number:04d}.parquet")


def check_sums(source: Path, table: Path) -> None:
    """Raises:
    AssertionError: the table is not what DuckDB makes of the source.
    """
    sales, found = duckdb.read_parquet(f"{source}/*.parquet"), duckdb.read_parquet(f"{table}/**/*.parquet")
    wanted = sales.filter("amount % 3 = 0").aggregate("key, sum(2 * amount)::BIGINT AS amount", "key")
    assert sorted(found.select("key", "amount").fetchall()) == sorted(wanted.fetchall()), table  # noqa: S101


def _run(arena: Arena, dag_id: str) -> tuple[Mapping[str, float], float, int]:
    arena.airflow.api.wait_for_dag(dag_id, SETTLE_SECONDS)
    started = time.monotonic()
    cpu, states = arena.run_dag(dag_id, "measured")
    return cpu, time.monotonic() - started, sum(each.map_index >= 0 for each in states)


def _measure(arena: Arena, dag_id: str) -> dict[str, int | float]:
    log = arena.airflow.log_file("triggerer")
    before = log.stat().st_size
    cpu, seconds, subtasks = _run(arena, dag_id)
    late = [float(found) for found in _BLOCKED.findall(log.read_bytes()[before:].decode(errors="replace"))]
    records = [path.stat().st_size for path in (arena.exchange / dag_id / "measured").rglob("*.json")]
    xcoms = _xcoms(arena, dag_id)
    page, first_ms = _timed(lambda: _page(arena, dag_id))
    _, second_ms = _timed(lambda: _page(arena, dag_id))
    return {
        "subtasks": subtasks,
        "seconds": round(seconds, 1),
        **{component: round(cpu.get(component, 0.0), 1) for component in COMPONENTS},
        "blocked_ms": round(1000 * max(late, default=0.0)),
        "records": len(records),
        "records_kb": round(sum(records) / 1000),
        "xcom_kb": round(sum(xcoms) / 1000),
        "xcom_bytes": round(statistics.median(xcoms)),
        "page_kb": round(page / 1000),
        "page_first_ms": first_ms,
        "page_second_ms": second_ms,
    }


def _xcoms(arena: Arena, dag_id: str) -> list[int]:
    with closing(sqlite3.connect(f"file:{arena.airflow.home}/airflow.db?mode=ro", uri=True, timeout=60)) as database:
        rows = database.execute(
            "SELECT length(value) FROM xcom WHERE dag_id = ? AND map_index >= 0 AND key = 'return_value'", [dag_id]
        )
        return [length for (length,) in rows]


def _page(arena: Arena, dag_id: str) -> int:
    """Bytes of the JSON that the tab "Adaptive plan" shows."""
    asked = {"dag_id": dag_id, "run_id": "measured"}
    return len(arena.airflow.api._http.get("/adaptive_spark/api/run", params=asked).raise_for_status().content)


def _timed(what: Callable[[], int]) -> tuple[int, int]:
    started = time.perf_counter()
    found = what()
    return found, round(1000 * (time.perf_counter() - started))
