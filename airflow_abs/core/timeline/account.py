"""Where the seconds of a run went, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_abs.core.timeline.critical_path import Kind, Segment
from airflow_abs.core.wording import format_duration

_TOLD = 5
_SMALL = 0.03
"""Parts below this share of the whole are told together."""


@dataclass(frozen=True, slots=True)
class Share:
    """Seconds of the critical path that went into one thing."""

    kind: Kind
    label: str
    seconds: float


def account(path: Sequence[Segment]) -> tuple[Share, ...]:
    """By label, the largest first; the seconds are those of the whole path."""
    seconds: dict[tuple[Kind, str], float] = {}
    for segment in path:
        key = (segment.phase.kind, segment.phase.label)
        seconds[key] = seconds.get(key, 0.0) + segment.phase.seconds
    shares = [Share(kind, label, spent) for (kind, label), spent in seconds.items()]
    return tuple(sorted(shares, key=lambda share: (-share.seconds, share.label)))


def describe_account(shares: Sequence[Share]) -> str:
    """``17.2 s: 6.1 s Spark in enriched[2], 4.0 s Airflow between tasks, 0.4 s other``; "" for nothing."""
    total = sum(share.seconds for share in shares)
    if not shares or total <= 0:
        return ""
    told = [share for share in shares[:_TOLD] if share.seconds >= _SMALL * total]
    parts = [f"{format_duration(share.seconds)} {share.label}" for share in told]
    # What is left of the numbers as they are shown, so that they come to the total.
    rest = round(total, 1) - sum(round(share.seconds, 1) for share in told)
    if len(told) < len(shares) and rest >= 0.05:
        parts.append(f"{format_duration(rest)} other")
    return f"{format_duration(total)}: {', '.join(parts)}"
