"""What a table remembers of the runs that publish to it: a property for each, with how far it came with which rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_abs.tables.publishing.run_publication import RUN_PROPERTY, short_name

BEGUN, REPLACING, PLACED, DONE = "begun", "replacing", "placed", "done"
"""States: it may have put files into the table; it may have others there besides, from before it was cleared; its files
have taken the place of others, which it has still to check; it is published."""

_REMEMBERED = 500
_HEXADECIMAL = re.compile(r"(\S+) (\d+) (\d+) ((?:[0-9a-f]{2})+)")
_PLAIN = re.compile(r"(\S+) (\d+) (\S.*)")
"""As earlier versions of this package wrote it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The progress of a run: its state, its rows, the time (in seconds since 1970), the publisher and its plan.

    The identity is written in hexadecimal digits: Spark shows no property in whose name or value it finds words such as
    ``url`` or ``token``, and a DAG may be called ``hourly``.
    """

    state: str
    digest: str
    moment: int
    identity: str
    generation: int = 0

    def __str__(self) -> str:
        return f"{self.state} {self.digest} {self.moment} {self.generation} {self.identity.encode().hex()}"

    @staticmethod
    def read(text: str) -> Mark | None:
        """Back from a property, also one in which the identity stands as it is; None if it is neither."""
        state, _, rest = text.partition(" ")
        if found := _HEXADECIMAL.fullmatch(rest):
            digest, moment, generation, identity = found.groups()
            return Mark(state, digest, int(moment), bytes.fromhex(identity).decode(), int(generation))
        if found := _PLAIN.fullmatch(rest):
            digest, moment, identity = found.groups()
            return Mark(state, digest, int(moment), identity)
        return None

    def is_done(self, digest: str) -> bool:
        return (self.state, self.digest) == (DONE, digest)

    def has_other_rows(self, digest: str) -> bool:
        """Whether the table may hold rows of the run that have another digest."""
        return self.state == REPLACING or self.digest != digest

    @property
    def key(self) -> str:
        """Of its property. Each plan of a run has its own, so that none of them writes over what a later one noted."""
        return f"{short_name(self.identity)}.{self.generation}"


def name_of(key: str) -> str:
    """The property of a mark."""
    return f"{RUN_PROPERTY}.{key}"


def read_marks(properties: Mapping[str, str]) -> dict[str, Mark | None]:
    """Of all runs that a table remembers, by their keys, which begin with a run's short name; None for one that cannot
    be read."""
    prefix = name_of("")
    return {name.removeprefix(prefix): Mark.read(text) for name, text in properties.items() if name.startswith(prefix)}


def forgettable(marks: Mapping[str, Mark | None]) -> list[str]:
    """The properties of the oldest runs that are done, of more than a table should remember."""
    done = sorted((mark.moment, key) for key, mark in marks.items() if mark and mark.state == DONE)
    return [name_of(key) for _, key in done[: max(0, len(done) - _REMEMBERED)]]
