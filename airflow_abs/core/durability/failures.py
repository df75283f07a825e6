"""How much work lies between two failures, from what the job's earlier runs saw and from stated priors.

There are two kinds. Machines fail by the hour, whatever runs on them. Data and code fail by the run: a step stops at
unexpected rows, and the run is cleared from there; twice as long a job does not stop twice as often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from airflow_abs.core.checks import check_number
from airflow_abs.core.durability.prediction import NO_HISTORY, JobHistory

_DAY = 86_400.0
_PRIOR_RUNS = 20.0
"""The prior of data and code counts as much as this many observed runs."""
_PRIOR_DAYS = 1.0
"""The prior of machines counts as much as this many observed days of Spark's work."""


@dataclass(frozen=True, slots=True)
class FailurePriors:
    """What is taken for granted before a run was seen.

    Args:
        failures_per_run: stops for data and code in a run of the job; 0.05 is one run in twenty.
        failures_per_day: failures of machines in 24 hours of Spark's work.

    Raises:
        InvalidValueError: one is negative, or no number.
    """

    failures_per_run: float = 0.05
    failures_per_day: float = 1.0

    def __post_init__(self) -> None:
        check_number("failures_per_run", self.failures_per_run, at_least=0)
        check_number("failures_per_day", self.failures_per_day, at_least=0)


DEFAULT_PRIORS = FailurePriors()


@dataclass(frozen=True, slots=True)
class MeanTimes:
    """Seconds of work between two failures of each kind; infinity if there are none."""

    of_data: float
    of_machines: float

    @property
    def seconds(self) -> float:
        """Between two failures of any kind: their rates add up."""
        rate = 1 / self.of_data + 1 / self.of_machines
        return 1 / rate if rate else math.inf


def estimate_mean_times(
    job_seconds: float, history: JobHistory = NO_HISTORY, priors: FailurePriors = DEFAULT_PRIORS
) -> MeanTimes:
    """Rates as seen, the priors counting as 20 runs and one day of work (the mean of a gamma distribution).

    Args:
        job_seconds: that today's run is predicted to work, above 0; the failures of a run are spread over them.
        history: earlier runs; a failed try counts in the run in which it failed.
        priors: see there.
    """
    seen = [region for run in history.runs for region in run.regions]
    by_run = (priors.failures_per_run * _PRIOR_RUNS + sum(each.data_failures for each in seen)) / (
        _PRIOR_RUNS + len(history.runs)
    )
    by_day = (priors.failures_per_day * _PRIOR_DAYS + sum(each.machine_failures for each in seen)) / (
        _PRIOR_DAYS + sum(each.seconds for each in seen) / _DAY
    )
    return MeanTimes(job_seconds / by_run if by_run else math.inf, _DAY / by_day if by_day else math.inf)
