"""What all places share: where their programs are kept, and how they say that they cannot be set up."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build" / "places"


class PlaceError(RuntimeError):
    """The place cannot be set up on this host; the message says why."""
