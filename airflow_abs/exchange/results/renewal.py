"""Rows that take the place of others: the manifest of a subtask that ran again says whether they are the same.

A subtask of a repeatable region has the same rows as long as their checksums are the same. In an unrepeatable one
(`JobPlan.unrepeatable`) checksums prove nothing, because they leave columns out (random numbers are often doubles): its
rows are the same if it is deterministic itself and has read the same rows of others such.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from airflow_abs.exchange.errors import DamagedFileError, MissingFileError, StoredFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import Manifest, read_manifest, write_manifest
from airflow_abs.exchange.records.plan import JobPlan
from airflow_abs.exchange.records.tries import in_order, try_of
from airflow_abs.exchange.storage.whole_files import read_json, write_json


def replace_rows(folder: JobFolder, plan: JobPlan, manifest: Manifest, before: Manifest | None) -> Manifest:
    """Commit an attempt that may follow others; readers of other rows look for that from then on.

    Args:
        folder: of the run.
        plan: of the run.
        manifest: as the attempt made it.
        before: what it replaces; None if there is nothing, or nothing that can be read.

    Returns:
        what counts now: usually what was written. Of an unrepeatable region, an attempt that ends after a later one has
        committed, because its process was paused beyond its lease, is dropped: it would take back newer rows.
    """
    if manifest.region not in plan.unrepeatable:
        written = manifest.continues(before)
    elif (later := _later_attempt(folder, manifest)) is not None:
        return later
    else:
        written = manifest.continues(before, made_alike=before is not None and is_made_alike(plan, manifest, before))
        if before is None:  # it may have followed others even so: each recomputation has the next number
            restarts = in_order(manifest.attempt) - in_order(try_of(manifest.attempt))
            written = replace(written, renewals=restarts)
        if written.rows_of == manifest.attempt and (before is not None or manifest.attempt > 1):
            write_json(folder.renewed_path, {"region": manifest.region, "index": manifest.index})
    write_manifest(folder, written)
    return written


def _later_attempt(folder: JobFolder, manifest: Manifest) -> Manifest | None:
    """The one that has committed meanwhile under the same decision, if any has."""
    with suppress(StoredFileError):
        found = read_manifest(folder, manifest.region, manifest.index, decision=manifest.decision)
        if in_order(found.attempt) > in_order(manifest.attempt):
            return found
    return None


def is_made_alike(plan: JobPlan, manifest: Manifest, before: Manifest) -> bool:
    """Whether two attempts of a subtask have the same rows if the region is what its author declares."""
    changing = plan.unrepeatable
    if manifest.region not in changing:
        return True
    if not plan.region(manifest.region).deterministic:
        return False
    return all(manifest.read.get(producer) == before.read.get(producer) for producer in changing)


def has_renewed(folder: JobFolder) -> bool:
    """Whether a reader may have read rows in this run that do not count any more."""
    try:
        read_json(folder.renewed_path)
    except MissingFileError:
        return False
    except DamagedFileError:  # it is there
        pass
    return True
