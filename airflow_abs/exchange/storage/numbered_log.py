"""A state that several processes change, as numbered files that never change: `<folder>/00000007`.

The file with the highest number is the truth. A new one is made only by an exclusive create under the next number, so
of all who saw the same state one wins, however long the others were paused in between. Old files are deleted once a
higher one is there. Whoever slept until the number that it wants is deleted, too, creates it, looks again and learns
that it is not the highest: nothing of that counts, and the next one deletes it.
"""

from __future__ import annotations

import re

from airflow_abs.exchange.errors import TargetBusyError
from airflow_abs.exchange.storage.deletion import delete_files
from airflow_abs.exchange.storage.locations import Location
from airflow_abs.exchange.storage.whole_files import create_exclusively

_NUMBER = re.compile(r"\d{8}")
_READ_TRIES = 100


class NumberedLog:
    """The states in one folder; `name` says in errors whose they are (``sink s3://mart/revenue``)."""

    def __init__(self, folder: Location, name: str) -> None:
        self._folder = folder
        self._name = name

    def read(self) -> tuple[int, bytes] | None:
        """The number of the state that counts now, and its content; None if there is none.

        Raises:
            TargetBusyError: it changes faster than it can be read.
        """
        for _ in range(_READ_TRIES):
            newest = self._newest()
            if newest == 0:
                return None
            content = _content(self.place(newest))
            if content is not None:
                return newest, content
        raise TargetBusyError(
            f"{self._name}: its log changed {_READ_TRIES} times while it was read; expected one writer at a time: run "
            "this again when the others have ended"
        )

    def append(self, number: int, data: bytes) -> bool:
        """Make `data` the state that counts; False if there is another one of its number, or a higher one."""
        place = self.place(number)
        # the store's answer may have been lost, and the client told that the file is there: then it is our own
        is_mine = create_exclusively(place, data) or _content(place) == data
        return is_mine and self._newest() == number

    def prune(self, below: int) -> None:
        """Delete what is older than the state of that number, which has counted."""
        old = [number for number in self._numbers() if number < below]
        delete_files(self._folder, [self.place(number).path for number in old])

    def place(self, number: int) -> Location:
        """The file of a state."""
        return self._folder / f"{number:08d}"

    def _newest(self) -> int:
        return max(self._numbers(), default=0)

    def _numbers(self) -> list[int]:
        self._folder.forget_listings()
        names = [self._folder.at(str(path)).name for path in self._folder.fs.find(self._folder.path)]
        return [int(name) for name in names if _NUMBER.fullmatch(name)]


def _content(place: Location) -> bytes | None:
    try:
        return place.read_whole()
    except FileNotFoundError:
        return None
