"""From the folder that Spark wrote to the files that a manifest names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import ResultFile, ResultManifest
from airflow_abs.exchange.records.plan import PlannedStep
from airflow_abs.exchange.results.parquet_bytes import measure_files
from airflow_abs.exchange.storage.client_errors import raise_if_throttled, reason_of, storage_errors
from airflow_abs.exchange.storage.locations import ExchangePath, locate


def measure_result(
    folder: JobFolder, path: ExchangePath, step: PlannedStep, rows: int | None = None, checksum: int | None = None
) -> ResultManifest:
    """What one finished Spark write left in `path`, in numbers.

    Args:
        folder: of the run; file names are relative to it.
        path: the folder that Spark wrote; only its `part-` files count.
        step: what was written there.
        rows: as Spark counted them, for formats whose files do not say.
        checksum: the sum of its rows' hashes, if Spark made it.

    Raises:
        ExchangeError: a file cannot be read.
    """
    listed = _list_parts(path)
    if step.format == "parquet":
        files = _measure_parquet(folder, path, listed, step.subpartitions)
    else:
        files = _describe_others(folder, path, listed, rows or 0)
    text = None if checksum is None else str(checksum)
    return ResultManifest(step.format, step.schema, step.subpartitions, tuple(files), text, step.by_file)


def merge_results(pieces: Sequence[ResultManifest]) -> ResultManifest:
    """The pieces of one result as one: all files, and the sum of their checksums."""
    if len(pieces) == 1:
        return pieces[0]
    sums = [piece.checksum for piece in pieces]
    return replace(
        pieces[0],
        files=tuple(file for piece in pieces for file in piece.files),
        checksum=None if None in sums else str(sum(int(text or 0) for text in sums)),
    )


def _list_parts(path: ExchangePath) -> dict[str, int]:
    """Size by name, in the order of names."""
    location = locate(path)
    location.forget_listings()
    try:
        entries = location.fs.ls(location.path, detail=True)
    except storage_errors() as error:
        raise_if_throttled(location, error)
        raise ExchangeUnreachableError(
            f"{location}: cannot be listed ({reason_of(error)}); check that Airflow sees what Spark wrote there"
        ) from error
    sizes = {entry["name"].rsplit("/", 1)[-1]: entry["size"] for entry in entries}
    return {name: sizes[name] for name in sorted(sizes) if name.startswith("part-")}


def _measure_parquet(
    folder: JobFolder, path: ExchangePath, listed: dict[str, int], subpartitions: int
) -> list[ResultFile]:
    measured = measure_files([path / name for name in listed], subpartitions, sizes=list(listed.values()))
    return [
        ResultFile(
            path=folder.relative(path / name),
            bytes=found.bytes,
            rows=found.rows,
            first=found.first,
            subpartition_bytes=found.subpartition_bytes,
            tail_bytes=found.tail_bytes,
            tail_crc=found.tail_crc,
        )
        for name, found in zip(listed, measured, strict=True)
    ]


def _describe_others(folder: JobFolder, path: ExchangePath, listed: dict[str, int], rows: int) -> list[ResultFile]:
    """All rows are booked on the first file: text formats do not say how many each of theirs holds."""
    return [
        ResultFile(folder.relative(path / name), size, 0 if number else rows, 0, (size,))
        for number, (name, size) in enumerate(listed.items())
    ]
