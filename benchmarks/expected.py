"""What a run takes on the average of days with and without a failure."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_abs.core.durability.failures import FailurePriors, estimate_mean_times
from benchmarks.samples import Sample, spread

_DAY = 86_400.0


def priors_of(mean_seconds: float | None) -> FailurePriors:
    """A machine that fails every so many seconds of work and no other failure; None: the package's defaults."""
    return FailurePriors() if mean_seconds is None else FailurePriors(0.0, _DAY / mean_seconds)


def probability_of_failure(seconds: float, priors: FailurePriors) -> float:
    """That a run of so many seconds fails, at most 1: by the rates that the rule goes by before it saw a run."""
    return min(1.0, seconds / estimate_mean_times(seconds, priors=priors).seconds)


def expected_table(samples: Sequence[Sample], priors: FailurePriors) -> list[str]:
    """A Markdown table of one workload and scale: a row for each kind of single failure and peer, the first peer's
    expected seconds over it. Empty without failures."""
    head = ["failure", "peer", "undisturbed s", "failed s", "p", "expected s", f"{samples[0].peer}/it"]
    peers = list(dict.fromkeys(each.peer for each in samples))
    rows = []
    for kind in dict.fromkeys(each.failure for each in samples):
        if kind in ("", "three"):  # three failures a run are no probability
            continue
        found = {peer: row for peer in peers if (row := _expected(samples, peer, kind, priors)) is not None}
        for peer, (undisturbed, failed, share, total) in found.items():
            over = f"{found[peers[0]][3] / total:.2f}" if peers[0] in found and peer != peers[0] else ""
            cells = [kind, peer, f"{undisturbed:.1f}", f"{failed:.1f}", f"{share:.3f}", f"{total:.1f}", over]
            rows.append("| " + " | ".join(cells) + " |")
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *rows] if rows else []


def _expected(
    samples: Sequence[Sample], peer: str, kind: str, priors: FailurePriors
) -> tuple[float, float, float, float] | None:
    own = [each for each in samples if each.peer == peer and not each.problem]
    walls = {failure: [each.wall for each in own if each.failure == failure] for failure in ("", kind)}
    if not all(walls.values()):
        return None
    undisturbed, failed = (spread(each).median for each in walls.values())
    share = probability_of_failure(undisturbed, priors)
    return undisturbed, failed, share, (1 - share) * undisturbed + share * failed
