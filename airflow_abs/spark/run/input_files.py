"""Which files of its producers' results a subtask reads: by subpartitions, by number, or all of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from airflow_abs.exchange.records.manifest import Manifest, ResultFile, files_for_range
from airflow_abs.exchange.records.plan import PlannedInput
from airflow_abs.exchange.records.slices import Slice
from airflow_abs.spark.run.pieces import Piece


@dataclass(frozen=True, slots=True)
class FilesOfProducer:
    """Files with rows to be read, of one subtask's result."""

    manifest: Manifest
    files: Sequence[ResultFile]


def producers_read(own: Slice, entry: PlannedInput) -> Collection[int]:
    """The producer's subtasks that a subtask reads of an input.

    All of them; of a rescale input those that wrote its files, of a hot subpartition those of its part.
    """
    if entry.is_rescale:
        files = own.rescaled.get(entry.name)
        return files.located(files.span).keys() if files else ()
    part = own.hot_part
    found = part.producers if part and part.input == entry.name else range(own.producers[entry.region])
    return frozenset(found)


def files_of_producers(
    own: Slice, entry: PlannedInput, manifests: Sequence[Manifest], piece: Piece
) -> list[FilesOfProducer]:
    """What a piece reads of an input, of these subtasks of its producer."""
    if entry.is_rescale:
        span = piece.rescaled.get(entry.name)
        spans = own.rescaled[entry.name].located(span) if span else {}
        return [
            FilesOfProducer(manifest, [file for file in written[files.start : files.stop] if file.rows])
            for manifest in manifests
            if (files := spans.get(manifest.index)) and (written := manifest.results[entry.result].files)
        ]
    wanted = None if entry.is_broadcast else piece.subpartitions
    return [
        FilesOfProducer(manifest, files_for_range(result, wanted or result.all))
        for manifest in manifests
        for result in [manifest.results[entry.result]]
    ]
