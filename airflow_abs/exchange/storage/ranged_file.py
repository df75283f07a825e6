"""A read-only file over ranged reads: what was fetched ahead is served from memory, the rest is fetched on demand."""

from __future__ import annotations

import io
from collections.abc import Sequence

from airflow_abs.exchange.storage.locations import Location


class RangedFile(io.RawIOBase):
    """Few, chosen requests instead of a block cache's many. Not thread-safe; one per file and thread.

    `requests` counts what went to the storage (ranges that are fetched side by side count as one).
    """

    def __init__(self, location: Location, size: int) -> None:
        super().__init__()
        self.size = size
        self.requests = 0
        self._location = location
        self._position = 0
        self._parts: list[tuple[int, bytes]] = []

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch half-open byte ranges side by side, less those already in memory."""
        missing = [(start, stop) for start, stop in ranges if start < stop and self._find(start, stop) is None]
        if not missing:
            return
        self.requests += 1
        path = self._location.path
        if len(missing) == 1:
            found = [self._location.fs.cat_file(path, start=missing[0][0], end=missing[0][1])]
        else:
            starts, stops = [start for start, _ in missing], [stop for _, stop in missing]
            found = self._location.fs.cat_ranges([path] * len(missing), starts, stops, on_error="raise")
        self._parts.extend((start, bytes(part)) for (start, _), part in zip(missing, found, strict=True))

    def range(self, start: int, stop: int) -> bytes:
        """The bytes [start, stop); fewer at the end of the file."""
        stop = min(stop, self.size)
        if start >= stop:
            return b""
        if (part := self._find(start, stop)) is None:
            self.fetch([(start, stop)])
            part = self._find(start, stop)
        if part is None:
            raise EOFError(f"{self._location}: ended before byte {stop} of {self.size}")
        return part

    def _find(self, start: int, stop: int) -> bytes | None:
        for offset, part in self._parts:
            if offset <= start and stop <= offset + len(part):
                return part[start - offset : stop - offset]
        return None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        stop = self.size if size < 0 else self._position + size
        data = self.range(self._position, stop)
        self._position += len(data)
        return data
