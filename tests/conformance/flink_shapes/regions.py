"""Topic regions."""

from __future__ import annotations

from typing import Any

from airflow_abs.core.graph.regions import compute_pipelined_regions, compute_strong_components, group_members
from flink_shapes.notation import Given


def regions(version: str | None, given: Given) -> dict[str, Any]:
    if "num_nodes" in given:
        return _components(given)
    found = compute_pipelined_regions(
        given["vertices"],
        [(producer, consumer, kind == "PIPELINED") for producer, consumer, kind in given["edges"]],
    )
    in_order = sorted(found, key=lambda region: given["vertices"].index(region[0]))
    return {
        "regions": [list(region) for region in in_order],
        "region_sizes": [len(region) for region in in_order],
        "number_of_regions": len(in_order),
    }


def _components(given: Given) -> dict[str, Any]:
    # The only rule that a case spells out instead of listing the edges is the ring.
    count = given["num_nodes"]
    successors = given["out_edges"] if "out_edges" in given else [[(node + 1) % count] for node in range(count)]
    components = group_members(compute_strong_components(successors))
    return {
        "components": components,
        "number_of_components": len(components),
        "component_size": max(map(len, components)),
    }
