"""Prints the corpus' table, family by outcome: ``python -m tests.proof.table [--family NAME] [--at 1,2,7]``."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from tests.proof.corpus import FAMILIES, read_corpus
from tests.proof.runner import PARALLELISMS, Bench, Outcome, Verdict, run_corpus

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=FAMILIES, action="append", help="only this module of the corpus")
    parser.add_argument("--at", default=",".join(map(str, PARALLELISMS)), help="numbers of subtasks")
    parser.add_argument("--without-edges", action="store_true", help="only safe entries, with all edges inferred")
    parser.add_argument("--never-broadcast", action="store_true", help="as if no table were small")
    parser.add_argument("--refusals", action="store_true", help="show the messages of right refusals, too")
    arguments = parser.parse_args()
    entries = read_corpus(tuple(arguments.family or FAMILIES))
    if arguments.without_edges:
        entries = [entry.without_edges() for entry in entries if entry.safe]
    conf = {"spark.sql.autoBroadcastJoinThreshold": "-1"} if arguments.never_broadcast else {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="corpus-") as name:
        folder = Path(name)
        folder.chmod(0o700)
        settings = EmbeddedSettings(cores=2, driver_memory="1500m", conf=(("spark.sql.shuffle.partitions", "4"),))
        try:
            bench = Bench.prepare(ensure_embedded_server(folder / "server", settings=settings), folder)
            verdicts = run_corpus(
                replace(bench, spark_conf=conf), entries, [int(number) for number in arguments.at.split(",")]
            )
        finally:
            stop_embedded_server(folder / "server")
    print(format_table(verdicts))
    print(f"\n{len(entries)} entries at {arguments.at} subtasks in {time.monotonic() - began:.0f} s\n")
    print(describe_exceptions(verdicts))
    if arguments.refusals:
        for verdict in verdicts:
            if verdict.outcome is Outcome.REFUSED:
                print(f"refused: {verdict.entry.name} ({verdict.entry.why}): {verdict.detail}")


if __name__ == "__main__":
    main()
