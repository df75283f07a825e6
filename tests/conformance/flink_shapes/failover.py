"""Topic failover: a failed vertex runs again, and before it what it cannot read; then whoever is outdated does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_abs.core.failover import Made, find_outdated
from airflow_abs.core.graph.regions import compute_pipelined_regions
from flink_shapes.notation import Given


def failover(version: str | None, given: Given) -> dict[str, Any]:
    found = compute_pipelined_regions(
        given["vertices"], [(producer, consumer, kind == "PIPELINED") for producer, consumer, kind in given["edges"]]
    )
    home = {vertex: region for region in found for vertex in region}
    pairs = dict.fromkeys((home[producer], home[consumer]) for producer, consumer, _ in given["edges"])
    gone = [*given["failed_partition"], *given["unavailable_partitions"]]
    run = _Run(
        {region: [producer for producer, consumer in pairs if consumer == region != producer] for region in found},
        {(home[producer], home[consumer]) for producer, consumer in gone},
    )
    run.again(home[given["failed"]])
    while outdated := find_outdated({_name(region): {0: made} for region, made in run.made.items()}):
        (name, _), _ = next(iter(outdated.items()))
        run.again(next(region for region in found if _name(region) == name))
    return {"restart": [vertex for vertex in given["vertices"] if home[vertex] in run.restarted]}


@dataclass
class _Run:
    """Every region has run once, as one subtask; `gone` are results that cannot be read, by producer and consumer."""

    producers: dict[tuple[str, ...], list[tuple[str, ...]]]
    gone: set[tuple[tuple[str, ...], tuple[str, ...]]]
    made: dict[tuple[str, ...], Made] = field(default_factory=dict)
    restarted: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for region in self.producers:
            self._write(region, attempt=1)

    def again(self, region: tuple[str, ...]) -> None:
        assert region not in self.restarted, "each once"
        self.restarted.append(region)
        for producer in self.producers[region]:
            if (producer, region) in self.gone and producer not in self.restarted:
                self.again(producer)
        self._write(region, attempt=2)

    def _write(self, region: tuple[str, ...], attempt: int) -> None:
        read = {_name(producer): [(0, 1, self.made[producer].counts[0])] for producer in self.producers[region]}
        self.made[region] = Made(range(attempt, attempt + 1), read)


def _name(region: tuple[str, ...]) -> str:
    return "-".join(region)
