"""Rounds of two runs of one date on an S3 server, with a reader, `gc`, and faults; then what must hold.

python -m tests.faults.store.suite --seed 1 --faults 250
python -m tests.faults.store.suite --gateway     on the store of `make test-s3`, which fetches it
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from airflow_abs.exchange.publish.commit_log import CommitLog
from airflow_abs.exchange.storage.locations import locate
from testbed.places.programs import fetch
from testbed.places.s3_gateway import S3Gateway
from tests.faults.store import roles
from tests.faults.store.faulty_gateway import FaultyGateway
from tests.faults.store.faulty_s3 import FaultyS3
from tests.faults.store.roles import Store, look_at, take_part
from tests.faults.store.rounds import Play, Round

BUCKET = "store-suite"
ROUND_SECONDS = 240.0
EVERY_SECONDS = 0.6
FOREIGN = {
    "exchange/lake/sales/orders/ds=1/part-0.parquet": b"somebody else's, four folders deep",
    "exchange/dag/other/job/data.bin": b"a folder without a plan",
    "mart/other/part-0.parquet": b"another target",
}


def play(store: Store, s3: FaultyS3, number: int, seed: int, faults: int, at_most: float) -> Round:
    """One round with so many faults."""
    chance = random.Random(f"{seed} {number}")  # noqa: S311
    mode = "append" if number % 3 == 2 else "overwrite"
    played = Round(number, mode)
    runs = [f"{number}-{name}" for name in ("a", "b")]
    target = f"mart/ds={number}"
    it = Play(store, s3, chance, target, played, runs)
    began = time.monotonic()
    it.start()
    kinds = it.kinds()
    while it.look_after() and time.monotonic() - began < at_most:
        if played.faults.total() >= faults:
            time.sleep(0.05)
            continue
        kind = chance.choice(sorted(kinds))
        if kinds[kind]():
            played.faults[kind] += 1
        time.sleep(chance.uniform(0.0, EVERY_SECONDS))
    played.seconds = time.monotonic() - began
    if it.going:
        played.wrong.append(f"not over after {played.seconds:.0f} s")
    it.end()
    played.wrong += _what_is_wrong(store, s3, target, runs, mode)
    return played


def _what_is_wrong(store: Store, s3: FaultyS3, target: str, runs: Sequence[str], mode: str) -> list[str]:
    """At the end: whole, nothing twice, nothing left over after the next publication, nothing foreign touched."""
    wrong = [problem] if (problem := look_at(store, target, runs)) else []
    record = CommitLog(locate(store.path(target))).read().commit
    published = sorted(entry.identity for entry in record.entries)
    expected = [roles.identity(run) for run in runs]
    if published != expected if mode == "append" else published not in ([expected[0]], [expected[1]]):
        wrong.append(f"{target}: published are {published}, expected {expected}, {mode}")
    wrong += [f"{key} was touched" for key, data in FOREIGN.items() if s3.read(store.bucket, key) != data]
    return wrong


def sweep(store: Store, s3: FaultyS3, played: Sequence[Round]) -> list[str]:
    """One more run publishes to each target: then nothing is left there that its record does not name."""
    wrong = []
    for each in played:
        run, target = f"{each.number}-z", f"mart/ds={each.number}"
        take_part(store, run, target, "overwrite", 1)
        names = {
            file.name for entry in CommitLog(locate(store.path(target))).read().commit.entries for file in entry.files
        }
        found = {key.removeprefix(f"{target}/") for key in s3.keys(store.bucket) if key.startswith(f"{target}/part-")}
        if found != names:
            wrong.append(f"{target}: holds {sorted(found)}, its record names {sorted(names)}")
        store.note("published", run).unlink()
    return wrong


def run_suite(s3: FaultyS3, seed: int, faults: int, per_round: int, at_most: float) -> list[Round]:
    """Rounds until so many faults have hit; one that is wrong is the last."""
    rounds = list[Round]()
    s3.start()
    s3.make_bucket(BUCKET)
    for index in range(roles.PRODUCERS):
        s3.put(BUCKET, f"lake/orders/part-{index}.parquet", b"x" * 900)
    for key, data in FOREIGN.items():
        s3.put(BUCKET, key, data)
    with tempfile.TemporaryDirectory(prefix="airflow-abs-store-") as local:
        store = Store(s3.url, BUCKET, Path(local), s3.key, s3.secret)
        while (left := faults - sum(each.faults.total() for each in rounds)) > 0:
            played = play(store, s3, len(rounds) + 1, seed, min(per_round, left), at_most)
            rounds.append(played)
            wrong = f", WRONG: {played.wrong}" if played.wrong else ""
            print(
                f"round {played.number} ({played.mode}): {played.faults.total()} faults, {played.seconds:.0f} s{wrong}",
                flush=True,
            )
            if played.wrong:
                break
        rounds[-1].wrong += sweep(store, s3, rounds)
    s3.stop()
    return rounds


def to_markdown(seed: int, rounds: Sequence[Round]) -> str:
    faults = sum((each.faults for each in rounds), Counter[str]())
    rows = [f"| {kind} | {count} |" for kind, count in sorted(faults.items())]
    wrong = [problem for each in rounds for problem in each.wrong]
    return "\n".join(
        [
            f"| fault (store, seed {seed}) | times |", "|---|---|", *rows, f"| **all** | **{faults.total()}** |", "",
            f"* rounds: {len(rounds)}, right: {sum(not each.wrong for each in rounds)}; kinds: {len(faults)}; "
            f"seconds: {sum(each.seconds for each in rounds):.0f}",
            *(f"* wrong: {problem}" for problem in wrong),
        ]
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--per-round", type=int, default=10)
    parser.add_argument("--round-seconds", type=float, default=ROUND_SECONDS, help="more on a busy machine")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--gateway", action="store_true", help="a real store instead of moto")
    options = parser.parse_args(arguments)
    if options.gateway:
        fetch("s3")
    with tempfile.TemporaryDirectory(prefix="airflow-abs-gateway-") as folder:
        s3 = FaultyGateway(gateway=S3Gateway.at(Path(folder))) if options.gateway else FaultyS3()
        rounds = run_suite(s3, options.seed, options.faults, options.per_round, options.round_seconds)
    print(to_markdown(options.seed, rounds))
    if options.json:
        options.json.write_text(json.dumps([each.to_json() for each in rounds], indent=1) + "\n", encoding="utf-8")
    return 1 if any(each.wrong for each in rounds) else 0


if __name__ == "__main__":
    sys.exit(main())
