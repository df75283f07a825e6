"""`inputs.json`: the manifests of the producers of a region in one file, as `decide` found them.

On an object store every subtask of n producers would ask for n manifests, and there are as many subtasks as there are.
So `decide` reads them once. Each stands there with the tag that the store gave its content: a listing, which a subtask
makes in any case, then shows which of them are still the ones, and only others are read. So a producer that ran again
since is seen. Local files have no such tag, and are read one by one: they are near.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from airflow_abs.exchange.errors import DamagedFileError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import Manifest, list_tags
from airflow_abs.exchange.records.reading import as_record
from airflow_abs.exchange.records.run_records import FEW, RunRecords
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import read_json, write_json


@dataclass(frozen=True, slots=True)
class _Tagged:
    etag: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class ManifestIndex:
    """By producer region, the manifests of its subtasks in order, each with the tag of its content."""

    producers: Mapping[str, tuple[_Tagged, ...]] = field(default_factory=dict)

    def current(self, folder: JobFolder, region: str, wanted: Collection[int]) -> dict[int, Manifest]:
        """Of these subtasks of a producer, the manifests that are still as they were; one listing.

        Raises:
            ExchangeUnreachableError: the storage does not answer.
        """
        if len(wanted) <= FEW or region not in self.producers:
            return {}
        known = self.producers[region]
        tags = list_tags(folder, region, len(known))
        return {
            index: known[index].manifest
            for index in wanted
            if index < len(known) and tags.get(index) == known[index].etag
        }


def write_index(records: RunRecords, region: str, producers: Iterable[str]) -> None:
    """Gather the manifests of a region's producers, if that spares anything.

    Raises:
        ExchangeError: a manifest is missing or damaged; the storage does not answer.
    """
    folder = records.folder
    if locate(folder.path).is_local:
        return
    found: dict[str, list[dict[str, object]]] = {}
    for name in producers:
        if records.subtasks(name) <= FEW:
            continue
        manifests, tags = records.manifests(name), records.tags(name)
        if len(tags) == len(manifests):
            found[name] = [{"etag": tags[each.index], "manifest": each.to_json()} for each in manifests]
    if found:
        write_json(folder.index_path(region), {"producers": found})


def read_index(folder: JobFolder, region: str) -> ManifestIndex:
    """What `write_index` left; empty if there is nothing that can be read."""
    path = folder.index_path(region)
    try:
        return as_record(read_json(path), ManifestIndex, where=str(locate(path)))
    except (MissingFileError, DamagedFileError):
        return ManifestIndex()
