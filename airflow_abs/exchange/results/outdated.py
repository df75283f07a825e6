"""Whether the rows of a region were made of what counts now: `commit` looks at it before anything is published.

Who clears one subtask of a producer replaces its rows, while its readers have the old ones. Published together they
would be a mixture that no run of the job has. So every manifest says which attempts it was made of, and what it says
is compared with the manifests as they are now, for the region and for all before it.

A lost result that is recomputed belongs to the try that wrote it, and is the same to a reader. Not so in a region that
is not repeatable, and in all that read it (`JobPlan.unrepeatable`): every attempt there has rows of its own, and who
has read others runs again by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from airflow_abs.core.failover import Made, Subtask, find_outdated
from airflow_abs.core.wording import format_count, format_indexes
from airflow_abs.exchange.errors import DamagedFileError, MissingFileError, OutdatedInputError, StoredFileError
from airflow_abs.exchange.records.manifest import AttemptsRead, Manifest, read_manifest
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.records.tries import in_order, try_of

log = logging.getLogger(__name__)


def check_current(records: RunRecords, name: str) -> dict[Subtask, Subtask]:
    """Of a region all of whose subtasks have committed.

    Returns:
        as `read_outdated`: what the run itself has to run again before anything is published.

    Raises:
        OutdatedInputError: names what to clear.
        ExchangeError: the plan cannot be read.
    """
    for region in records.plan.with_all_before(name):
        try:
            _check_decision(records, region)
        except (MissingFileError, DamagedFileError) as error:
            log.warning("the inputs of %s are no longer known: %s", region, error)
            continue
        _check_attempts(records, region)
    return read_outdated(records, name)


def read_outdated(records: RunRecords, *names: str) -> dict[Subtask, Subtask]:
    """The subtasks of unrepeatable regions, of these and before them, that have to run again, each with the one whose
    rows it has to reread; producers first.

    Raises:
        ExchangeError: plan or a decision cannot be read.
    """
    changing = set(records.plan.unrepeatable)
    regions = [region for region in records.plan.with_all_before(*names) if region in changing]
    left = {region: _left(records, region) for region in reversed(regions)}  # then no reader is newer than what it read
    made: dict[str, dict[int, Made | None]] = {}
    for region in regions:
        made[region] = dict.fromkeys(range(records.subtasks(region)))
        made[region] |= {each.index: _made(each) for each in left[region]}
    return find_outdated(made)


def _made(manifest: Manifest) -> Made:
    read = {
        producer: [(span.start, span.stop, in_order(span.attempt)) for span in spans]
        for producer, spans in manifest.read.items()
    }
    return Made(range(in_order(manifest.rows_of), in_order(manifest.attempt) + 1), read)


def _check_decision(records: RunRecords, region: str) -> None:
    stored, found = records.decision(region), ""
    for producer, spans in stored.measured_attempts.items():
        exactly = producer in records.plan.unrepeatable
        for index, read, counts in _compare(spans, _newer(records, producer, exactly=exactly), exactly=exactly):
            found = f"the values of attempt {read} of {producer}[{index}], and attempt {counts} counts now"
    for producer, digest in stored.producer_decisions.items():
        if digest != (now := records.digest(producer)):
            found = f"decision {digest} of {producer}, and {now} counts now"
    if stored.plan != records.plan.id:
        found = f"plan {stored.plan}, and the run's is {records.plan.id}"
    if found:
        raise OutdatedInputError(
            f"{region}: was decided under {found}, so its rows do not belong with the others; expected one plan, and "
            f"one decision for each region: clear {region}.decide and everything after it. Nothing was published"
        )


def _check_attempts(records: RunRecords, region: str) -> None:
    own = _left(records, region)
    looked_at: dict[str, dict[int, int]] = {}
    outdated: dict[int, str] = {}
    unrepeatable = records.plan.unrepeatable
    for manifest in own:
        for producer, spans in manifest.read.items():
            if producer in unrepeatable:
                continue
            if producer not in looked_at:
                looked_at[producer] = _newer(records, producer)
            for index, read, counts in _compare(spans, looked_at[producer]):
                told = f"attempt {read} of {producer}[{index}], of which attempt {counts} counts now"
                outdated.setdefault(manifest.index, told)
    if outdated:
        first = min(outdated)
        more = "" if len(outdated) == 1 else f" ({format_count(len(outdated), 'subtask')} of {region} in all)"
        raise OutdatedInputError(
            f"{region}[{first}]: has read {outdated[first]}{more}; expected rows of one attempt in all that is "
            f"published: clear {region}.run, map index {format_indexes(sorted(outdated))}, and everything "
            "after it. Nothing was published"
        )


def _newer(records: RunRecords, region: str, *, exactly: bool = False) -> dict[int, int]:
    """The attempts whose rows count now, of subtasks that had others in an earlier try; `exactly`: or attempt."""
    rows = ((each.index, each.rows_of) for each in _left(records, region))
    return {index: attempt for index, attempt in rows if (attempt if exactly else try_of(attempt)) > 1}


def _compare(
    spans: Sequence[AttemptsRead], newer: dict[int, int], *, exactly: bool = False
) -> Iterator[tuple[int, int, int]]:
    number = in_order if exactly else try_of
    for span in spans if newer else ():
        for index, counts in newer.items():
            if span.start <= index < span.stop and number(span.attempt) < number(counts):
                yield index, span.attempt, counts


def _left(records: RunRecords, region: str) -> Sequence[Manifest]:
    """The manifests that can be read: one that is lost was whole when its readers ran, and has no newer rows."""
    try:
        return records.manifests(region)
    except StoredFileError as error:
        log.warning("some of what %s wrote is no longer known: %s", region, error)
    found = []
    for index in range(records.subtasks(region)):
        try:
            found.append(read_manifest(records.folder, region, index))
        except StoredFileError:
            continue
    return found
