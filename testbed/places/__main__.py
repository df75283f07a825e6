"""`python -m testbed.places kafka|s3|yarn|kubernetes|compose`: bring what the place needs."""

from __future__ import annotations

import sys
import time

from testbed.places.place import PlaceError
from testbed.places.programs import BRINGS, fetch, is_fetched


def main(place: str) -> int:
    """0 once it is there; else 1, and why in one sentence."""
    if place not in BRINGS:
        print(f"python -m testbed.places: found {place!r}, expected one of {', '.join(BRINGS)}", file=sys.stderr)
        return 2
    started = time.monotonic()
    if not is_fetched(place):
        print(f"{place}: fetching {BRINGS[place]}", flush=True)
    try:
        fetch(place)
    except PlaceError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{place}: all there after {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) == 2 else ""))
