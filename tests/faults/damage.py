"""Ways to lose a committed file."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import ResultFile, read_manifest


def delete(path: Path, file: ResultFile, chance: random.Random) -> None:
    path.unlink()


def truncate(path: Path, file: ResultFile, chance: random.Random) -> None:
    with path.open("r+b") as opened:
        opened.truncate(chance.randrange(1, file.bytes))


def empty(path: Path, file: ResultFile, chance: random.Random) -> None:
    path.write_bytes(b"")


def flip_data(path: Path, file: ResultFile, chance: random.Random) -> None:
    """One bit in the first half of the pages."""
    _flip(path, chance.randrange(64, max(65, (file.bytes - file.tail_bytes) // 2)), chance)


def flip_footer(path: Path, file: ResultFile, chance: random.Random) -> None:
    _flip(path, chance.randrange(file.bytes - file.tail_bytes, file.bytes), chance)


def _flip(path: Path, position: int, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


DAMAGES: Mapping[str, Callable[[Path, ResultFile, random.Random], None]] = {
    function.__name__: function for function in (delete, truncate, empty, flip_data, flip_footer)
}


def committed_files(folder: JobFolder, region: str, index: int) -> list[tuple[Path, ResultFile]]:
    """Files of every result of a subtask that hold rows."""
    manifest = read_manifest(folder, region, index)
    return [
        (Path(str(folder.file_path(file.path))), file)
        for result in manifest.results.values()
        for file in result.files
        if file.rows
    ]
