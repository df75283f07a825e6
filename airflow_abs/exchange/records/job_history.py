"""How a job's last runs ended: one small file for each job, beside the folders of its runs.

It is there to predict with and to compare with, and a run needs neither: a file that is lost, damaged or of another
version costs no more than that, and nothing here raises. Of two runs that end at the same time, the one that writes
first may be left out of it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from airflow_abs.core.durability.prediction import NO_HISTORY, JobHistory, RunHistory
from airflow_abs.exchange.errors import DamagedFileError, ExchangeError, IncompatibleFileError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.reading import as_record
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import read_json, write_json

log = logging.getLogger(__name__)

HISTORY_VERSION = 1
KEPT_RUNS = 60


def history_from_json(payload: Mapping[str, Any], *, where: str) -> JobHistory:
    """Build and check; a DamagedFileError names the first field that is wrong."""
    return as_record(payload, JobHistory, where=where, required=("runs",))


def read_history(folder: JobFolder, today: str = "") -> JobHistory:
    """The job's last runs but this one, whose logical date is `today`; none, with a line in the log, if they cannot be
    read."""
    try:
        runs = _read(folder).runs
    except ExchangeError as error:
        log.warning("the history of %s cannot be read, and counts as empty: %s", folder.job, error)
        return NO_HISTORY
    return JobHistory(tuple(run for run in runs if run.run_id != folder.run_id), today)


def remember_run(folder: JobFolder, run: RunHistory) -> None:
    """Add a run to the job's history, in place of what it said of the same run before; the oldest goes if it is full.

    A file that is damaged or of another version starts over. If the storage refuses, a line in the log says so.
    """
    try:
        try:
            before = _read(folder).runs
        except (DamagedFileError, IncompatibleFileError) as error:
            log.warning("the history of %s starts over: %s", folder.job, error)
            before = ()
        others = [each for each in before if each.run_id != run.run_id]
        kept = sorted([*others, run], key=lambda each: each.began)[-KEPT_RUNS:]
        write_json(folder.history_path, {"runs": [asdict(each) for each in kept]}, version=HISTORY_VERSION)
    except ExchangeError as error:
        log.warning("this run is not added to the history of %s: %s", folder.job, error)


def _read(folder: JobFolder) -> JobHistory:
    try:
        payload = read_json(folder.history_path, version=HISTORY_VERSION)
    except MissingFileError:
        return NO_HISTORY
    return history_from_json(payload, where=str(locate(folder.history_path)))
