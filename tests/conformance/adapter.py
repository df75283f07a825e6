"""Runs one conformance case against the core.

`evaluate` turns the `given` of a case into calls of `airflow_abs.core` and shapes the answer like `expect`. It
translates names, units and inclusive ranges; every rule is in the core. The answer may say more than a case asks for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Also importable by its path alone, without `tests` being a package.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from flink_shapes import joins, parallelism, ranges, regions, rescale, resources, restarts, results, sources

from airflow_abs.core.errors import AdaptiveSchedulerError, InvalidStateError

Evaluate = Callable[[str | None, dict[str, Any]], dict[str, Any]]

TOPICS: dict[str, Evaluate] = {
    "adaptive_states": resources.adaptive_states,
    "broadcast_join": joins.broadcast_join,
    "failover": regions.failover,
    "forward_groups": regions.forward_groups,
    "parallelism": parallelism.parallelism,
    "pointwise": rescale.pointwise,
    "ranges_all_to_all": ranges.ranges_all_to_all,
    "ranges_by_bytes": ranges.ranges_by_bytes,
    "region_scheduling": regions.region_scheduling,
    "regions": regions.regions,
    "restart_backoff": restarts.restart_backoff,
    "result_bytes": results.result_bytes,
    "skewed_join": joins.skewed_join,
    "slots": resources.slots,
    "slow_task": restarts.slow_task,
    "source_inference": sources.source_inference,
    "subpartition_count": ranges.subpartition_count,
}


def evaluate(topic: str, version: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Answer one case; a refusal by the core is `{"error": ...}`."""
    try:
        return TOPICS[topic](version, given)
    except InvalidStateError:
        # The one refusal that the vectors quote.
        return {"error": "Please call notifyFailure first." if topic == "restart_backoff" else True}
    except AdaptiveSchedulerError:
        return {"error": True}
