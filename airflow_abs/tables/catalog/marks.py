"""What a table remembers of the runs that publish to it: a property for each, with how far it came with which rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_abs.tables.publishing.run_publication import RUN_PROPERTY

BEGUN, REPLACING, DONE = "begun", "replacing", "done"
"""States: it may have put files into the table; it may have others there besides, from before it was cleared; it is
published."""

_REMEMBERED = 500


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a run came with which rows, when it was noted (in seconds since 1970), and whose they are."""

    state: str
    digest: str
    moment: int
    identity: str

    def __str__(self) -> str:
        return f"{self.state} {self.digest} {self.moment} {self.identity}"

    def is_done(self, digest: str) -> bool:
        return (self.state, self.digest) == (DONE, digest)

    def has_other_rows(self, digest: str) -> bool:
        """Whether the table may hold rows of the run that have another digest."""
        return self.state == REPLACING or self.digest != digest


def name_of(short: str) -> str:
    """The property of a run, from its short name."""
    return f"{RUN_PROPERTY}.{short}"


def read_marks(properties: Mapping[str, str]) -> dict[str, Mark]:
    """Of all runs that a table remembers, by their short names."""
    found = {}
    for name, text in properties.items():
        if name.startswith(name_of("")):
            state, digest, moment, identity = text.split(" ", 3)
            found[name.removeprefix(name_of(""))] = Mark(state, digest, int(moment), identity)
    return found


def forgettable(marks: Mapping[str, Mark]) -> list[str]:
    """The properties of the oldest runs that are done, of more than a table should remember."""
    done = sorted((mark.moment, short) for short, mark in marks.items() if mark.state == DONE)
    return [name_of(short) for _, short in done[: max(0, len(done) - _REMEMBERED)]]
