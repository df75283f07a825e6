"""Prints the corpus' table, family by outcome: ``python -m tests.proof.table [--family NAME] [--at 1,2,7]``."""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from airflow_abs.testing.corpus import FAMILIES, read_corpus
from airflow_abs.testing.corpus_bench.runner import PARALLELISMS, Bench, Outcome, run_corpus
from airflow_abs.testing.corpus_bench.table import describe_exceptions, format_table


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
