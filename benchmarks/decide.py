"""Time and memory of one decision against its size: producers times subpartitions."""

from __future__ import annotations

import json
import random
import resource
import time
from array import array
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from airflow_abs.core.decide.region_decision import decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions
from airflow_abs.core.graph.partitioning import Partitioning

SIZES = ((128, 128), (512, 512), (1024, 128), (1024, 1024), (2048, 2048), (4096, 4096))


def run() -> list[dict[str, int | float]]:
    """One row per size; each is measured in a process of its own."""
    rows = []
    for producers, subpartitions in SIZES:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            rows.append(pool.submit(measure, producers, subpartitions).result())
    return rows


def measure(producers: int, subpartitions: int) -> dict[str, int | float]:
    """Decide once. The peak is what the process grew by, the measured bytes (the input) included."""
    before = _resident_bytes()
    sizes = _random_sizes(producers, subpartitions)
    target = sum(map(sum, sizes)) // subpartitions
    started = time.perf_counter()
    subtasks = _decide(sizes, target)
    seconds = time.perf_counter() - started
    grown = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {
        "producers": producers,
        "subpartitions": subpartitions,
        "subtasks": subtasks,
        "seconds": round(seconds, 4),
        "peak_mb": round(grown / 2**20, 1),
    }


def _decide(sizes: Sequence[Sequence[int]], target_bytes: int) -> int:
    """From bytes to the JSON of the decision, as the decide task does; returns the number of subtasks."""
    measured = BlockingInput("orders", Partitioning.HASH, sizes)
    decision = decide_region("benchmark", [measured], [], RegionOptions(target_bytes, max_parallelism=len(sizes[0])))
    json.dumps(decision.to_json())
    return decision.parallelism


def _random_sizes(producers: int, subpartitions: int) -> Sequence[Sequence[int]]:
    """Bytes by partition and subpartition, 0 to 4 GiB, the same in every run."""
    source = random.Random(1)  # noqa: S311
    return [array("q", array("I", source.randbytes(4 * subpartitions))) for _ in range(producers)]


def _resident_bytes() -> int:
    """Memory that this process holds now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
