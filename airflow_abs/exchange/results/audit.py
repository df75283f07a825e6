"""Whether a region's rows are as their authors expect, from what its subtasks counted while they wrote them.

It is looked at where all counts are known for the first time: by `commit`, before anything is published, and by
`decide` of every region that reads the rows, before it runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from airflow_abs.core.expect.expectations import Expectation
from airflow_abs.core.expect.verdicts import Tally, Verdict, add_up
from airflow_abs.exchange.errors import DamagedFileError, ExpectationError
from airflow_abs.exchange.records.manifest import Manifest, ResultManifest
from airflow_abs.exchange.records.plan import PlannedRegion
from airflow_abs.exchange.records.run_records import RunRecords

log = logging.getLogger(__name__)

RowsBefore = Callable[[str], int | None]
"""From a vertex to the rows of the run that was published last; None if there is none."""


def find_verdicts(
    region: PlannedRegion, manifests: Iterable[Manifest], rows_before: RowsBefore | None
) -> list[Verdict]:
    """What came of the region's expectations, in the order of their declaration, over these of its subtasks.

    Args:
        region: as planned.
        manifests: of its subtasks; row counts say nothing before all are there.
        rows_before: to compare row counts with, too.

    Raises:
        DamagedFileError: a manifest has rows, and no count of an expectation.
    """
    listed = list(manifests)
    found = []
    for step in region.steps:
        for expectation in step.expectations:
            results = [(manifest, manifest.result(step.result)) for manifest in listed]
            rows = sum(result.rows for _, result in results)
            if not expectation.is_row_count:
                tallies = [_tally(manifest, result, expectation) for manifest, result in results]
                found.append(Verdict(step.vertex, expectation, rows, add_up(tallies)))
            elif rows_before is not None:
                found.append(Verdict(step.vertex, expectation, rows, rows_before=rows_before(step.vertex)))
    return found


def check_region(records: RunRecords, name: str, rows_before: RowsBefore | None = None) -> list[Verdict]:
    """The verdicts on a region all of whose subtasks have committed; they are logged.

    Args:
        records: of the run.
        name: of the region.
        rows_before: of those who are about to publish what it has; only they compare row counts.

    Raises:
        ExpectationError: one is not met, and its `on_failure` is ``fail``.
        ExchangeError: decision or a manifest cannot be read.
    """
    region = records.plan.region(name)
    if not any(step.expectations for step in region.steps):
        return []
    verdicts = find_verdicts(region, records.manifests(name), rows_before)
    for verdict in verdicts:
        log.log(logging.INFO if verdict.holds else logging.WARNING, "%s", verdict)
    if stopping := [verdict for verdict in verdicts if verdict.stops]:
        raise ExpectationError(_describe(stopping))
    return verdicts


def _describe(verdicts: Sequence[Verdict]) -> str:
    first = verdicts[0]
    told = "; ".join(f"{each.expectation.name!r} ({each.expectation.what}): {each.found}" for each in verdicts)
    return (
        f"vertex {first.vertex!r}: its rows are not as expected: {told}. Nothing that depends on them is published; "
        f"readers still see the previous output. Correct the data or the transform and clear plan and everything after "
        "it; or, if the rows are right, raise the tolerance (or set on_failure='warn') and do the same"
    )


def _tally(manifest: Manifest, result: ResultManifest, expectation: Expectation) -> Tally:
    """Spark tells no counts of an operation that had no rows."""
    found = result.expectations.get(expectation.name)
    if found is None and result.rows:
        raise DamagedFileError(
            f"{manifest.region}[{manifest.index}]: its manifest has {result.rows} rows and no count of the expectation "
            f"{expectation.name!r}; clear {manifest.region}[{manifest.index}]"
        )
    return found or Tally()
