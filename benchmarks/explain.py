"""What `airflow-abs explain` costs on a wide run, over the least that reading the same files can cost."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.recorded_runs import chain_run

ROUNDS = 5
REPORT = "import resource; r = resource.getrusage(resource.RUSAGE_SELF); print(r.ru_utime + r.ru_stime)"
READ = """
import json, sys
from pathlib import Path
for path in Path(sys.argv[1]).rglob("*.json"):
    json.loads(path.read_bytes())
"""
EXPLAIN = """
import sys
from airflow_abs.cli.main import main
main(["explain", "chain", "--exchange", sys.argv[1]])
"""


def run(regions: int = 20, subtasks: int = 128) -> list[dict[str, float | str]]:
    """CPU seconds of two fresh interpreters, Python's own start included, and the ratio of the second to the first."""
    with tempfile.TemporaryDirectory() as folder:
        chain_run(Path(folder), regions, subtasks).run()
        cases = {"parse the files": READ, "explain": EXPLAIN}
        seconds: dict[str, list[float]] = {case: [] for case in cases}
        for _ in range(ROUNDS):
            for case, code in cases.items():
                seconds[case].append(_measure(code, folder))
    medians = {case: statistics.median(values) for case, values in seconds.items()}
    return [
        {"case": case, "cpu_seconds": round(value, 3), "over_parsing": round(value / medians["parse the files"], 2)}
        for case, value in medians.items()
    ]


def _measure(code: str, folder: str) -> float:
    command = [sys.executable, "-c", f"{code}\n{REPORT}", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])
