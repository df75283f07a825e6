"""`python -m tests.model`: search many schedules, and print how many, and what was found."""

from __future__ import annotations

import argparse
import sys
import time

from tests.model.scenarios import CLEARED, LOCAL, SMALL, SMALL_IN_FULL, STORE, TABLES, Any_, surroundings
from tests.model.search import Found, search_all, search_at_random


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.model")
    parser.add_argument("--schedules", type=int, default=100_000, help="random ones, over all worlds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="also every schedule of the small worlds (some minutes)")
    options = parser.parse_args(arguments)
    worlds = [*STORE.items(), *TABLES.items(), *CLEARED.items(), *LOCAL.items()]
    slow = LOCAL | CLEARED
    total = Found(0, 0)
    for name, scenario in worlds:
        rest = len(STORE | TABLES)
        share = options.schedules // (20 * len(slow)) if name in slow else options.schedules * 19 // (20 * rest)
        total = _told(total, name, scenario, lambda build, share=share: search_at_random(build, options.seed, share))
    for name, scenario in [*SMALL.items(), *SMALL_IN_FULL.items()] if options.all else []:
        total = _told(total, f"all of: {name}", scenario, search_all)
    print(f"{total.schedules:,} schedules, {total.steps:,} steps{'; ' + total.violation if total.violation else ''}")
    return 1 if total.violation else 0


def _told(total: Found, name: str, scenario: Any_, search: object) -> Found:
    began = time.monotonic()
    with surroundings(scenario):
        found: Found = search(scenario.build)  # type: ignore[operator]
    seconds = time.monotonic() - began
    states = f", {found.states:,} states" if found.states else ""
    print(f"{name}: {found.schedules:,} schedules, {found.steps:,} steps{states}, {seconds:.0f} s", flush=True)
    if found.violation:
        print(f"  {found.violation}")
    return Found(
        total.schedules + found.schedules, total.steps + found.steps, violation=total.violation or found.violation
    )


if __name__ == "__main__":
    sys.exit(main())
