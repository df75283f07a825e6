"""Which regions a run has begun to publish, and from which rows, so that it can republish them."""

from __future__ import annotations

from airflow_abs.exchange.errors import DamagedFileError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.whole_files import read_json, write_json

UNKNOWN = -1


def note_publishing(folder: JobFolder, region: str, plan: str, renewals: int = UNKNOWN) -> None:
    """Before anything of a region is published under the plan of this id; with the `renewals` (`RunRecords.renewals`)
    of its rows, after all of them were."""
    write_json(folder.publishing_path(region), {"plan": plan, "renewals": renewals})


def published_renewals(folder: JobFolder, region: str, plan: str) -> int | None:
    """As `note_publishing` has it; None if nothing of the region can be published under that plan."""
    try:
        noted = read_json(folder.publishing_path(region))
    except MissingFileError:
        return None
    except DamagedFileError:
        return UNKNOWN
    return int(noted["renewals"]) if noted["plan"] == plan else None
