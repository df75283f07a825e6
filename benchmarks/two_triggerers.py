"""Hundreds of subtasks in one region on the cluster, with two triggerers: seconds, CPU, and who awaited how many."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from airflow_abs.demo.airflow_api import ENDED
from benchmarks.cpu_time import adopt_orphans, difference, read_processes, seconds_by_part
from benchmarks.subtasks import write_rows
from testbed.processes import ClusterProcesses
from testbed.topology.place import AIRFLOW

SUBTASKS = 300
DAG_SECONDS = 300.0
RUN_SECONDS = 3600.0
LOOK_SECONDS = 1.0
ROOT = Path(__file__).parents[1]
_EVENT = "SparkListenerConnectOperation"


@dataclass(slots=True)
class Watched:
    """What was seen of a run. `holders`: for each trigger, the job number of the triggerer that had it last."""

    state: str = ""
    seconds: float = 0.0
    holders: dict[int, int] = field(default_factory=dict)

    @property
    def per_triggerer(self) -> list[int]:
        return sorted(Counter(self.holders.values()).values(), reverse=True)


def run(subtasks: int = SUBTASKS) -> list[dict[str, int | float | str]]:
    """One row for subtasks that start in the triggerers, one for those that workers start.

    `seconds` of the whole run, `triggers`: how many each triggerer has had, `at_once`: most operations that ran on
    Spark at the same time (it has 2 slots), `cpu_per_subtask`: CPU seconds of all of Airflow above a run of one.
    """
    adopt_orphans()
    with _cluster(subtasks) as (cluster, folder):
        rows = []
        for kind in ("_in_triggerer", ""):
            one, _ = _measure(cluster, f"noops_1{kind}")
            cpu, watched = _measure(cluster, f"noops_{subtasks}{kind}")
            rows.append(
                {
                    "dag": f"noops_{subtasks}{kind}",
                    "state": watched.state,
                    "seconds": round(watched.seconds, 1),
                    "triggers": " + ".join(map(str, watched.per_triggerer)),
                    "airflow_cpu": round(cpu, 1),
                    "cpu_per_subtask": round((cpu - one) / max(1, subtasks - 1), 3),
                }
            )
            print(rows[-1], flush=True)
        time.sleep(2.0)  # Spark's event log is written a moment later
        return [row | {"at_once": _most_at_once(folder / "events", str(row["dag"]))} for row in rows]


def _measure(cluster: ClusterProcesses, dag_id: str) -> tuple[float, Watched]:
    """CPU seconds of all of Airflow's services, and what was seen."""
    cluster.airflow.api.wait_for_dag(dag_id, DAG_SECONDS)
    before = _cpu(cluster)
    watched = _watch(cluster, dag_id)
    used = difference(_cpu(cluster), before)
    return sum(used[name] for name in AIRFLOW), watched


@contextmanager
def _cluster(subtasks: int) -> Iterator[tuple[ClusterProcesses, Path]]:
    folder = Path(tempfile.mkdtemp(prefix="airflow-abs-bench-"))
    folder.chmod(0o711)  # PostgreSQL may run as a user of its own
    try:
        (folder / "events").mkdir()
        for count in (1, subtasks):
            write_rows(folder / "data" / f"noops_{count}", count)
        environment = {
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "AIRFLOW_ABS_BENCH_DATA": str(folder / "data"),
            "AIRFLOW_ABS_BENCH_WORKLOADS": "",
        }
        dags = folder / "dags"
        dags.mkdir()
        shutil.copy(ROOT / "benchmarks" / "dags" / "noops.py", dags)
        cluster = ClusterProcesses(folder / "cluster", dags, env=environment, report=print)
        settings = {"enabled": "true", "compress": "false", "dir": f"file://{folder}/events"}
        with (folder / "cluster" / "secrets" / "spark.conf").open("a") as file:
            file.writelines(f"spark.eventLog.{name} {value}\n" for name, value in settings.items())
        with cluster:
            yield cluster, folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _watch(cluster: ClusterProcesses, dag_id: str) -> Watched:
    import psycopg2

    api, watched, place = cluster.airflow.api, Watched(), cluster.place
    connection = psycopg2.connect(
        host="127.0.0.1",
        port=place.ports["postgres"],
        user="airflow",
        password=place.secrets["POSTGRES_PASSWORD"],
        dbname="airflow",
    )
    connection.autocommit = True
    started = time.monotonic()
    run_id = api.trigger_run(dag_id, datetime.now(UTC), run_id=dag_id)
    with connection.cursor() as cursor:
        while watched.state not in ENDED:
            time.sleep(LOOK_SECONDS)
            cursor.execute("SELECT id, triggerer_id FROM trigger WHERE triggerer_id IS NOT NULL")
            watched.holders |= dict(cursor.fetchall())
            watched.state = api.run_state(dag_id, run_id)
            if time.monotonic() - started > RUN_SECONDS:
                break
    watched.seconds = time.monotonic() - started
    connection.close()
    return watched


def _cpu(cluster: ClusterProcesses) -> dict[str, float]:
    processes = {**cluster.airflow._processes, **cluster._processes}
    return seconds_by_part(read_processes(), os.getpid(), {name: each.pid for name, each in processes.items()})


def _most_at_once(events: Path, dag_id: str) -> int:
    """Operations of the run's subtasks that had begun and not ended, at most."""
    begun: dict[str, int] = {}
    ended: dict[str, int] = {}
    for path in sorted(path for path in events.rglob("*") if path.is_file()):
        for line in path.read_text(errors="replace").splitlines():
            if _EVENT not in line[:120]:
                continue
            event = json.loads(line)
            operation, name = event["operationId"], event["Event"].rpartition(".")[2].removeprefix(_EVENT)
            if name == "Started" and f"/{dag_id}/{dag_id}/" in line and "write_operation" in line:
                begun[operation] = event["eventTime"]
            elif name in ("Finished", "Failed", "Canceled"):
                ended.setdefault(operation, event["eventTime"])
    moments = sorted([(time, 1) for time in begun.values()] + [(ended[each], -1) for each in begun if each in ended])
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most
