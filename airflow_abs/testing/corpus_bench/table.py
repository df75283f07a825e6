"""What became of the corpus, as a table: family by outcome, and every exception in a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from airflow_abs.testing.corpus_bench.runner import Outcome, Verdict

_WRONG = (Outcome.FAILED, Outcome.WRONG, Outcome.NEEDLESS)


def format_table(verdicts: Sequence[Verdict]) -> str:
    """Families as rows, outcomes as columns, and the sums."""
    families = list(dict.fromkeys(verdict.entry.family for verdict in verdicts))
    counts = Counter((verdict.entry.family, verdict.outcome) for verdict in verdicts)
    columns = [Outcome.RIGHT, Outcome.REFUSED, Outcome.WRONG, Outcome.NEEDLESS, Outcome.FAILED]
    lines = [["family", "entries", *(str(each) for each in columns)]]
    for family in families:
        found = [counts[family, each] for each in columns]
        lines.append([family, str(sum(found)), *map(str, found)])
    sums = [sum(counts[family, each] for family in families) for each in columns]
    lines.append(["all", str(sum(sums)), *map(str, sums)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = []
    for name, *cells in lines:
        padded = [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))]
        rows.append(f"| {' | '.join(padded)} |")
    rule = "|-" + "-|-".join("-" * width for width in widths) + "-|"
    return "\n".join([rows[0], rule, *rows[1:]])


def describe_exceptions(verdicts: Sequence[Verdict], *, detail: int = 400) -> str:
    """Every entry that is not as it should be, one a line; `detail` is how many characters of the message are shown."""
    return "\n".join(
        f"{verdict.outcome}: {verdict.entry.name} ({verdict.entry.why or 'safe'}): "
        f"{' '.join(verdict.detail.split())[:detail]}"
        for verdict in verdicts
        if verdict.outcome in _WRONG
    )
