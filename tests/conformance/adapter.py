"""Runs one conformance case against the core.

`evaluate` turns the `given` of a case into calls of `airflow_abs.core` and shapes the answer like `expect`. It
translates names, units and inclusive ranges; every rule is in the core. The answer may say more than a case asks for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

# Also importable by its path alone, without `tests` being a package.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from flink_shapes import decisions, failover, regions, rescale, slots, streaming, waits

from airflow_abs.core.errors import AdaptiveSchedulerError, InvalidStateError

Evaluate = Callable[[str | None, dict[str, Any]], dict[str, Any]]


class Topic(NamedTuple):
    """How to evaluate a case, and the module of `airflow_abs.core` that answers it."""

    evaluate: Evaluate
    answered_by: str


TOPICS: dict[str, Topic] = {
    "adaptive_states": Topic(streaming.adaptive_states, "streaming.states"),
    "failover": Topic(failover.failover, "failover"),
    "parallelism": Topic(decisions.parallelism, "decide.region_parallelism"),
    "source_inference": Topic(decisions.source_inference, "decide.region_parallelism"),
    "pointwise": Topic(rescale.pointwise, "decide.file_ranges"),
    "ranges_all_to_all": Topic(decisions.ranges_all_to_all, "decide.ranges"),
    "ranges_by_bytes": Topic(decisions.ranges_by_bytes, "decide.ranges"),
    "regions": Topic(regions.regions, "graph.regions"),
    "resource_wait": Topic(waits.resource_wait, "slots.resource_wait"),
    "restart_backoff": Topic(waits.restart_backoff, "restart_backoff"),
    "skewed_join": Topic(decisions.skewed_join, "decide.hot_subpartitions"),
    "slots": Topic(slots.slots, "streaming.slots_wanted"),
}


def evaluate(topic: str, version: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Answer one case; a refusal by the core is `{"error": ...}`."""
    try:
        return TOPICS[topic].evaluate(version, given)
    except InvalidStateError:
        # The one refusal that the vectors quote.
        return {"error": "Please call notifyFailure first." if topic == "restart_backoff" else True}
    except AdaptiveSchedulerError:
        return {"error": True}
