"""Seeded faults on three stateful streams, then the report: `python -m tests.faults.streams --seed 1 --faults 100`.

Each fault hits while files are delivered; the next one comes when all that was delivered is in a committed batch. At
the end every sink must be DuckDB's answer, and Spark's own events must tell of one query on a checkpoint at a time.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.faults.streams.faults import StreamInjector
from tests.faults.streams.spark_files import broken_promises, count_runs
from tests.faults.streams.stage import Stage


@dataclass(frozen=True, slots=True)
class StreamFault:
    """`recovered`: seconds from the fault until all that was delivered before and after it was committed."""

    kind: str
    target: str
    recovered: float


@dataclass(slots=True)
class StreamReport:
    """`wrong` are sinks that differ, and promises that were broken."""

    seed: int
    seconds: float = 0.0
    files: int = 0
    starts: int = 0
    faults: list[StreamFault] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def to_markdown(self) -> str:
        lines = [f"| fault (seed {self.seed}) | times | seconds to recover: median, most |", "|---|---|---|"]
        for kind in [*sorted({fault.kind for fault in self.faults}), ""]:
            seconds = [fault.recovered for fault in self.faults if fault.kind == kind or not kind]
            spread = f"{statistics.median(seconds):.1f}, {max(seconds):.1f}" if seconds else ""
            lines.append(f"| {kind or '**all**'} | {len(seconds)} | {spread} |")
        told = "; ".join(self.wrong) or "none"
        lines += [
            "",
            f"* files of each stream: {self.files}; starts of queries: {self.starts}; seconds: {self.seconds:.0f}",
            f"* sinks that differ from DuckDB's answer, batches done twice, two queries on a checkpoint: {told}",
        ]
        return "\n".join(lines)


def run_suite(seed: int, count: int, folder: Path, only: Sequence[str] = ()) -> StreamReport:
    """As many faults as asked, unless one cannot be recovered from; that is in the report."""
    chance, report, began = random.Random(seed), StreamReport(seed), time.monotonic()  # noqa: S311
    with Stage(folder) as stage:
        stage.wait(stage.is_done)
        kinds = StreamInjector(stage, chance).kinds()
        names = [name for name in sorted(kinds) if not only or name in only]
        order = [name for _ in range(count // len(names) + 1) for name in chance.sample(names, len(names))][:count]
        try:
            for number, name in enumerate(order, 1):
                stage.deliver()
                time.sleep(chance.uniform(0.0, 1.0))
                started = time.monotonic()
                target = kinds[name]()
                stage.deliver()
                stage.wait(stage.is_done)
                report.faults.append(StreamFault(name, target, time.monotonic() - started))
                _say(f"{number}: {name} ({target}), recovered after {report.faults[-1].recovered:.1f} s")
            stage.finish()
        except (AssertionError, TimeoutError) as error:
            report.wrong.append(f"{name}: {error}")
        report.wrong += stage.wrong()
        report.files = stage.delivered
    report.wrong += broken_promises(folder / "events")
    report.starts, report.seconds = count_runs(folder / "events"), time.monotonic() - began
    return report


def _say(line: str) -> None:
    print(f"{datetime.now(tz=UTC):%H:%M:%S} {line}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--only", action="append", default=[], help="a kind of fault; may be given several times")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, help="keep everything here (default: a temporary folder)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="airflow-abs-streams-") as temporary:
        folder = (options.folder or Path(temporary)).absolute()
        report = run_suite(options.seed, options.faults, folder, options.only)
    print(report.to_markdown())
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
