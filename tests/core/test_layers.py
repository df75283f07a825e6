"""The core stands alone, and gives the same answers in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CORE = Path(__file__).parents[2] / "airflow_abs" / "core"


def run_python(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout


def test_the_core_loads_the_standard_library_and_itself_only() -> None:
    paths = [path.relative_to(CORE).with_suffix("") for path in sorted(CORE.rglob("[!_]*.py"))]
    modules = ", ".join(f"airflow_abs.core.{'.'.join(path.parts)}" for path in paths)
    script = (
        "import sys; before = set(sys.modules)\n"
        f"import {modules}\n"
        "loaded = set(sys.modules) - before\n"
        "print('\\n'.join(name for name in loaded if name.split('.')[0] not in sys.stdlib_module_names))"
    )
    loaded = run_python(script).split()
    assert loaded
    assert [name for name in loaded if name != "airflow_abs" and not name.startswith("airflow_abs.core")] == []


def test_every_process_gives_the_same_decision() -> None:
    script = """
import json
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.decide.region_decision import *
from airflow_abs.core.graph.regions import compute_pipelined_regions
names = [f"v{k}" for k in range(20)]
edges = [(names[k], names[(k * 7 + 3) % 20], k % 3 == 0) for k in range(20)]
inputs = [BlockingInput(n, Partitioning.HASH, [[(k * 31 + len(n)) % 17 for k in range(64)]]) for n in ("a", "bb")]
decision = decide_region("r", inputs, [SourceInput("f", [5, 5, 5, 9, 1])], RegionOptions(target_bytes=100))
print(json.dumps([decision.to_json(), compute_pipelined_regions(names, edges)]))
"""
    assert len({run_python(script, PYTHONHASHSEED=seed) for seed in ("0", "1", "42")}) == 1
