"""Who recomputes the lost files of a subtask: one reader at a time, while the others wait for its new manifest.

A claim is a small file with a lease, made by an exclusive create under the number of the attempt that its holder will
write. Its holder renews it; when the lease is over, or the holder gave up, the next reader claims the next number. So
no two readers ever write one attempt, and a held claim is never removed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from airflow_abs.exchange.errors import DamagedFileError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.reading import Count, Seconds, as_record
from airflow_abs.exchange.records.tries import next_attempt
from airflow_abs.exchange.storage.client_errors import raise_unlisted, storage_errors
from airflow_abs.exchange.storage.locations import Location, locate
from airflow_abs.exchange.storage.whole_files import (
    create_exclusively,
    decode_json,
    encode_json,
    read_bytes,
    write_atomic,
)

LEASE_SECONDS = 90.0
_CLAIM = re.compile(r"[^/]+/subtask-\d+/recovery-\d+\.json")


@dataclass(frozen=True, slots=True)
class RecoveryClaim:
    """A recovery under way. `attempt` is what it writes; `until` is the end of the lease in epoch seconds.

    `region`, `index` and `decision` say what is recomputed. `inputs` says which attempts of its own producers it reads,
    "" until it knows. `ended` says that its holder is done or gave up: the next one starts at once, under another
    attempt. `recomputed_bytes` is what it recomputed, 0 until then.
    """

    owner: str
    region: str
    index: Count
    decision: str
    attempt: Count
    until: Seconds
    inputs: str = ""
    ended: bool = False
    recomputed_bytes: Count = 0

    @staticmethod
    def from_json(payload: Mapping[str, Any], *, where: str) -> RecoveryClaim:
        """Build and check a claim; a DamagedFileError names the first field that is wrong."""
        return as_record(payload, RecoveryClaim, where=where, required=("inputs", "ended", "recomputed_bytes"))


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim that is ours. `stale` is the attempt of a holder that vanished, whose Spark operations may still run."""

    claim: RecoveryClaim
    stale: int | None = None


def claim_recovery(
    folder: JobFolder, region: str, index: int, *, decision: str, owner: str, lost_attempt: int, now: float
) -> Claimed | None:
    """Claim the recomputation of a subtask; None while another process has it.

    The same owner asking again (the triggerer after the worker, a triggerer after its crash) continues with its claim.

    Args:
        decision: the digest of the decision that mapped the subtask.
        owner: names the reader.
        lost_attempt: the attempt whose files are lost.
        now: epoch seconds.
    """
    attempt, stale = next_attempt(lost_attempt), None
    while True:
        location = locate(folder.recovery_path(region, index, attempt))
        fresh = RecoveryClaim(owner, region, index, decision, attempt, now + LEASE_SECONDS)
        if create_exclusively(location, _content(fresh)):
            return Claimed(fresh, stale)
        held = _read(location)
        if held is not None and not held.ended:
            if held.owner == owner:
                return Claimed(renew_claim(folder, held, now), stale)
            if held.until > now:
                return None
            stale = held.attempt
        attempt = next_attempt(attempt)


def renew_claim(folder: JobFolder, claim: RecoveryClaim, now: float) -> RecoveryClaim:
    """Start the lease again."""
    renewed = replace(claim, until=now + LEASE_SECONDS)
    write_atomic(folder.recovery_path(claim.region, claim.index, claim.attempt), _content(renewed))
    return renewed


def move_claim(folder: JobFolder, claim: RecoveryClaim, attempt: int, inputs: str, now: float) -> RecoveryClaim | None:
    """Continue under another attempt; None if the lease has expired and another process has begun.

    The new number is ours before the old one is released, so no process comes in between.
    """
    moved = replace(claim, attempt=attempt, inputs=inputs, until=now + LEASE_SECONDS)
    place = locate(folder.recovery_path(claim.region, claim.index, attempt))
    if not create_exclusively(place, _content(moved)):
        held = _read(place)
        if held is None or held.ended or held.owner != claim.owner:
            return None
        moved = renew_claim(folder, moved, now)
    end_claim(folder, claim)
    return moved


def end_claim(folder: JobFolder, claim: RecoveryClaim, recomputed_bytes: int = 0) -> None:
    """Let the claim go; its attempt number stays used."""
    path = folder.recovery_path(claim.region, claim.index, claim.attempt)
    write_atomic(path, _content(replace(claim, until=0.0, ended=True, recomputed_bytes=recomputed_bytes)))


def find_claims(folder: JobFolder, owner: str) -> list[RecoveryClaim]:
    """The claims of a reader that are not ended, and those of the recoveries that are part of them."""
    return [claim for claim in list_claims(folder) if not claim.ended and f"{claim.owner} <".startswith(f"{owner} <")]


def list_claims(folder: JobFolder) -> list[RecoveryClaim]:
    """Every recovery of the run, those that ended too: also of what was lost again later."""
    location = locate(folder.path)
    location.forget_listings()
    try:  # not by a glob: that would be a request for each subtask on an object store
        files = [location.at(str(name)) for name in location.fs.find(location.path)]
    except storage_errors() as error:
        raise_unlisted(location, error)
    found = sorted((file for file in files if _CLAIM.fullmatch(file.relative_to(location))), key=lambda file: file.path)
    return [claim for file in found if (claim := _read(file)) is not None]


def read_claim(folder: JobFolder, region: str, index: int, attempt: int) -> RecoveryClaim | None:
    """The claim as it stands; None if there is none, or none that can be read."""
    return _read(locate(folder.recovery_path(region, index, attempt)))


def _content(claim: RecoveryClaim) -> bytes:
    return encode_json(asdict(claim))


def _read(location: Location) -> RecoveryClaim | None:
    where = str(location)
    try:
        return RecoveryClaim.from_json(decode_json(read_bytes(location), where=where), where=where)
    except (MissingFileError, DamagedFileError):
        return None
