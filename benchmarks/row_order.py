"""CPU of an edge whose rows are sorted by subpartition, and of one whose readers filter, by the number of readers."""

from __future__ import annotations

import statistics
from functools import partial

from airflow_abs.core.graph.partitioning import Partitioning
from benchmarks.exchange import bench_of_edges, cpu_of, plan_edge, read_edge, write_edge

ROWS = 4_000_000
ROUNDS = 3
EXPECTED = {"sorted": 64, "not sorted": 1}
"""For so many readers the rule says so."""
READERS = (1, 2, 4, 6, 8, 12)


def run(rows: int = ROWS, rounds: int = ROUNDS) -> list[dict[str, float | str]]:
    """CPU seconds, medians of all rounds: of the write, and of the write and all reads by so many readers."""
    samples: dict[str, list[dict[str, float]]] = {order: [] for order in EXPECTED}
    with bench_of_edges(rows, "2g") as (endpoint, folder, server):
        for number in range(rounds + 1):  # the first one warms the server up
            for order, expected in EXPECTED.items():
                job = plan_edge(endpoint, folder, f"round-{number}-{expected}", Partitioning.HASH, expected)
                found = {"write": cpu_of(server, partial(write_edge, job))}
                for count in READERS:
                    reads = cpu_of(server, partial(read_edge, endpoint, job, Partitioning.HASH, count))
                    found[f"with {count} readers"] = found["write"] + reads
                samples[order].append(found)
    return [
        {"order": order} | {what: round(statistics.median(each[what] for each in found[1:]), 2) for what in found[0]}
        for order, found in samples.items()
    ]
