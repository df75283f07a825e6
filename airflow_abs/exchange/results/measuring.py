"""From the folder that Spark wrote to the files that a manifest names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from airflow_abs.core.expect.verdicts import Tally, add_up
from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import ResultFile, ResultManifest
from airflow_abs.exchange.records.plan import PlannedStep
from airflow_abs.exchange.results.parquet_bytes import measure_files
from airflow_abs.exchange.storage.client_errors import raise_if_throttled, reason_of, storage_errors
from airflow_abs.exchange.storage.listings import Listed, etag_of
from airflow_abs.exchange.storage.locations import ExchangePath, locate

_PART = re.compile(r"([^/]+=[^/]*/)*part-[^/]*")


def measure_result(
    folder: JobFolder,
    path: ExchangePath,
    step: PlannedStep,
    rows: int | None = None,
    checksum: int | None = None,
    expectations: Mapping[str, Tally] | None = None,
) -> ResultManifest:
    """What one finished Spark write left in `path`, in numbers.

    Args:
        folder: of the run; file names are relative to it.
        path: the folder that Spark wrote; only its `part-` files count.
        step: what was written there.
        rows: as Spark counted them, for formats whose files do not say.
        checksum: the sum of its rows' hashes, if Spark made it.
        expectations: what Spark counted for each.

    Raises:
        ExchangeError: a file cannot be read.
    """
    listed = _list_parts(path, is_partitioned=bool(step.partition_by))
    if step.format == "parquet":
        files = _measure_parquet(folder, path, listed, step.subpartitions)
    else:
        files = _describe_others(folder, path, listed, rows or 0)
    text = None if checksum is None else str(checksum)
    return ResultManifest(
        step.format, step.schema, step.subpartitions, tuple(files), text, step.by_file, expectations or {}
    )


def merge_results(pieces: Sequence[ResultManifest]) -> ResultManifest:
    """The pieces of one result as one: all files, and the sums of their checksums and of what was counted."""
    if len(pieces) == 1:
        return pieces[0]
    sums = [piece.checksum for piece in pieces]
    counted = set.intersection(*(set(piece.expectations) for piece in pieces))
    return replace(
        pieces[0],
        files=tuple(file for piece in pieces for file in piece.files),
        checksum=None if None in sums else str(sum(int(text or 0) for text in sums)),
        combined=None if pieces[0].combined is None else sum(piece.combined or 0 for piece in pieces),
        sampled=None if pieces[0].sampled is None else _add_samples(piece.sampled for piece in pieces),
        expectations={name: add_up(piece.expectations[name] for piece in pieces) for name in sorted(counted)},
    )


def _add_samples(sampled: Iterable[tuple[int, int] | None]) -> tuple[int, int]:
    known = [each for each in sampled if each is not None]
    return sum(rows for rows, _ in known), sum(groups for _, groups in known)


def _list_parts(path: ExchangePath, *, is_partitioned: bool) -> dict[str, Listed]:
    """By name (``day=2026-01-01/part-...`` of what is partitioned), in the order of names."""
    location = locate(path)
    location.forget_listings()
    try:
        entries = location.fs.ls(location.path, detail=True)
        if is_partitioned:  # after that: a folder that is not there would be one without files
            entries = location.fs.find(location.path, detail=True).values()
    except storage_errors() as error:
        raise_if_throttled(location, error)
        raise ExchangeUnreachableError(
            f"{location}: cannot be listed ({reason_of(error)}); check that Airflow sees what Spark wrote there"
        ) from error
    found = {
        location.at(entry["name"]).relative_to(location): Listed(entry["size"], etag_of(entry)) for entry in entries
    }
    return {name: found[name] for name in sorted(found) if _PART.fullmatch(name)}


def _measure_parquet(
    folder: JobFolder, path: ExchangePath, listed: dict[str, Listed], subpartitions: int
) -> list[ResultFile]:
    measured = measure_files(
        [path / name for name in listed], subpartitions, sizes=[each.bytes for each in listed.values()]
    )
    return [
        ResultFile(
            path=folder.relative(path / name),
            bytes=found.bytes,
            rows=found.rows,
            first=found.first,
            subpartition_bytes=found.subpartition_bytes,
            tail_bytes=found.tail_bytes,
            tail_crc=found.tail_crc,
            etag=listed[name].etag,
        )
        for name, found in zip(listed, measured, strict=True)
    ]


def _describe_others(folder: JobFolder, path: ExchangePath, listed: dict[str, Listed], rows: int) -> list[ResultFile]:
    """All rows are booked on the first file: text formats do not say how many each of theirs holds."""
    return [
        ResultFile(folder.relative(path / name), found.bytes, 0 if number else rows, 0, (found.bytes,), etag=found.etag)
        for number, (name, found) in enumerate(listed.items())
    ]
