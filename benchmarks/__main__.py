"""`python -m benchmarks [--only NAME ...] [--scale X] [--repeat N] [--json FILE] [--markdown FILE]`.

A workload is run by all peers on one Airflow and one Spark server, interleaved. Any other benchmark is a module whose
`run()` returns rows of plain values with the same keys; it is imported when it runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow_abs.demo.signals import ended_by_signals
from benchmarks.expected import expected_table, priors_of
from benchmarks.samples import Sample, rows_to_markdown, table_of
from benchmarks.workloads import WORKLOADS, chosen

Row = Mapping[str, int | float | str]
BENCHMARKS = {
    "broadcast_files": "benchmarks.broadcast_files",
    "compile": "benchmarks.compiling",
    "decide": "benchmarks.decide",
    "dynamic_pruning": "benchmarks.dynamic_pruning",
    "eager_aggregation": "benchmarks.eager_aggregation",
    "exchange": "benchmarks.exchange",
    "explain": "benchmarks.explain",
    "fusing": "benchmarks.fusing",
    "imports": "benchmarks.imports",
    "many_files": "benchmarks.many_files",
    "plan": "benchmarks.planning",
    "postgres_landing": "benchmarks.postgres_landing",
    "row_order": "benchmarks.row_order",
    "simulate": "benchmarks.simulate",
    "skew": "benchmarks.skew",
    "subtask_cost": "benchmarks.subtask_cost",
    "subtasks": "benchmarks.subtasks",
    "table_cost": "benchmarks.table_cost",
    "table_inference": "benchmarks.table_inference",
    "target_bytes": "benchmarks.target_bytes",
    "thousand": "benchmarks.thousand",
    "trigger_lag": "benchmarks.trigger_lag",
    "two_triggerers": "benchmarks.two_triggerers",
}
PEERS = (
    "ours", "whole", "whole_connect", "pooled", "worker", "triggerer", "auto", "fused_day", "separate",
    "submit", "slices", "files", "fused",
)  # fmt: skip
FAILURES = {
    "start": "Killed once after 10% of the last step",
    "middle": "Killed once after 50% of the last step",
    "end": "Killed once after 90% of the last step",
    "three": "Killed three times, at the same seconds whoever it is",
}
DEFAULT_PEERS = ("ours", "whole", "whole_connect", "triggerer", "submit", "slices", "files", "fused")


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if everything ran and every output was right."""
    options = _parser().parse_args(arguments)
    names = options.only or [*WORKLOADS, *BENCHMARKS]
    results: dict[str, Any] = {"machine": _machine()}
    markdown: list[str] = []
    with ended_by_signals():
        workloads = [name for name in names if name in WORKLOADS]
        if workloads:
            samples: list[Sample] = []
            with closing(_compare(options, workloads)) as measured:
                for sample in measured:
                    samples.append(sample)
                    results["samples"] = [each.to_json() for each in samples]
                    _write(options, results, _tables(samples, options.mean_seconds))
            markdown += _tables(samples, options.mean_seconds)
        for name in (each for each in names if each in BENCHMARKS):
            print(f"{name}:", flush=True)
            results[name] = import_module(BENCHMARKS[name]).run()
            print(format_table(results[name]), flush=True)
            markdown += ["", f"### {name}", "", *rows_to_markdown(results[name])]
            _write(options, results, markdown)
    print("\n".join(markdown))
    return 1 if any(each.get("problem") for each in results.get("samples", ())) else 0


def _write(options: argparse.Namespace, results: Mapping[str, Any], markdown: Sequence[str]) -> None:
    """After every sample: an error later loses nothing of what was measured."""
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    if options.markdown:
        options.markdown.write_text("\n".join(markdown) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    every = sorted([*WORKLOADS, *BENCHMARKS])
    parser.add_argument("--only", action="append", choices=every, help="run this one (repeatable)")
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H's scale factor (1: about 110 MB of Parquet)")
    parser.add_argument("--repeat", type=int, default=1, help="rounds of all peers")
    parser.add_argument(
        "--peers", default=",".join(DEFAULT_PEERS), help=f"some of {','.join(PEERS)}; all are compared with the first"
    )
    parser.add_argument(
        "--days", type=int, default=0, help="instead of rounds: so many days whose volumes differ 20-fold up to --scale"
    )
    parser.add_argument(
        "--failures",
        default="",
        help="some of start,middle,end,three: as many more rounds, in which the last step is killed once, or whatever "
        "runs is killed three times",
    )
    parser.add_argument(
        "--mean-seconds", type=float, metavar="M", help="what the jobs are told: seconds of work between two failures"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample and row")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables")
    return parser


def _compare(options: argparse.Namespace, names: Sequence[str]) -> Generator[Sample]:
    from benchmarks.compare import Comparison, compare_peers

    comparison = Comparison(
        workloads=chosen(names),
        peers=options.peers.split(","),
        scale=options.scale,
        repeat=options.repeat,
        days=options.days,
        mean_seconds=options.mean_seconds,
        failures=[name for name in options.failures.split(",") if name],
    )
    return compare_peers(comparison, lambda line: print(line, flush=True))


def _tables(samples: Sequence[Sample], mean_seconds: float | None) -> list[str]:
    """Per workload and scale: undisturbed runs, those that were made to fail, and what that makes on the average."""
    lines: list[str] = []
    for workload, scale in sorted({(each.workload, each.scale) for each in samples}):
        own = [each for each in samples if (each.workload, each.scale) == (workload, scale)]
        lines += ["", f"### {workload}, scale {scale:g}"]
        for kind in dict.fromkeys(each.failure for each in own):
            title = ["", f"{FAILURES[kind]}:"] if kind else []
            lines += [*title, "", *table_of([each for each in own if each.failure == kind])]
        priors = priors_of(mean_seconds)
        if expected := expected_table(own, priors):
            stated = f"{priors.failures_per_run:g} failures a run, {priors.failures_per_day:g} a day of work"
            lines += ["", f"Expected: (1 - p) undisturbed + p failed, p by the priors ({stated}):", "", *expected]
    return lines


def _machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}


def format_table(rows: Sequence[Row]) -> str:
    """Columns aligned to the right, one line per row."""
    lines = [
        list(rows[0]),
        *([f"{value:,}" if isinstance(value, int | float) else value for value in row.values()] for row in rows),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
