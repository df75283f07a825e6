"""`python -m benchmarks [--only NAME ...] [--json FILE]`: run benchmarks, print a table of each, write all as JSON.

A benchmark is a module whose `run()` returns rows of plain values with the same keys; it is imported when it runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

Row = Mapping[str, int | float | str]
BENCHMARKS = {
    "decide": "benchmarks.decide",
    "target_bytes": "benchmarks.target_bytes",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that were asked for, all by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(BENCHMARKS), help="run this one (repeatable)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows of every benchmark run")
    options = parser.parse_args(arguments)
    results = {}
    for name in options.only or BENCHMARKS:
        print(f"{name}:", flush=True)
        results[name] = import_module(BENCHMARKS[name]).run()
        print(format_table(results[name]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


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
