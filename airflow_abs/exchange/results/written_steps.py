"""What an attempt of several steps has written so far, so that a later attempt resumes after it.

One file of the attempt, in the form of a manifest, replaced after each step. It goes with the attempt's data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from airflow_abs.exchange.errors import StoredFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import MANIFEST_VERSION, Manifest, ResultManifest
from airflow_abs.exchange.records.plan import PlannedStep
from airflow_abs.exchange.results.lost_files import find_lost_files
from airflow_abs.exchange.storage.whole_files import read_json, write_json


def note_written(folder: JobFolder, written: Manifest) -> None:
    """Replace what is noted of the attempt."""
    path = folder.written_path(written.region, written.index, written.attempt)
    write_json(path, written.to_json(), version=MANIFEST_VERSION)


def read_written(
    folder: JobFolder, region: str, index: int, attempt: int, *, decision: str
) -> Mapping[str, ResultManifest]:
    """The results that an attempt under this decision has noted; none if there is no note, or none that can be read."""
    path = folder.written_path(region, index, attempt)
    try:
        noted = Manifest.from_json(read_json(path, version=MANIFEST_VERSION), where=str(path))
    except StoredFileError:
        return {}
    found = (noted.region, noted.index, noted.attempt, noted.decision)
    return noted.results if found == (region, index, attempt, decision) else {}


def find_whole(
    folder: JobFolder, steps: Sequence[PlannedStep], noted: Mapping[str, ResultManifest], suspects: Collection[str]
) -> Mapping[str, ResultManifest]:
    """The results that are noted and whole, see `leave_out_lost`, and rest on such results alone.

    What was made of one that is lost may rest on other rows than those that are written next: it does not count.
    """
    whole = leave_out_lost(folder, noted, suspects)
    found: dict[str, ResultManifest] = {}
    for step in steps:
        if step.result in whole and found.keys() >= set(step.local.values()):
            found[step.result] = whole[step.result]
    return found


def leave_out_lost(
    folder: JobFolder, results: Mapping[str, ResultManifest], suspects: Collection[str]
) -> Mapping[str, ResultManifest]:
    """The results without a lost file, and without any of the `suspects` that Spark could not read.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    files = [file for result in results.values() for file in result.files]
    lost = {*find_lost_files(folder, files), *suspects}
    return {name: each for name, each in results.items() if not any(file.path in lost for file in each.files)}
