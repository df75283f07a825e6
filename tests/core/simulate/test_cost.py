"""Costs of subtasks, and how they are fitted to recorded runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.simulate.cost import AirflowCosts, Costs, RegionCost, Spread
from airflow_abs.core.simulate.fit import RegionWorkload, fit_costs, fit_region
from airflow_abs.core.simulate.growth import Growth, Scenario
from airflow_abs.core.simulate.recorded_job import RecordedJob
from airflow_abs.core.simulate.replay_options import ReplayOptions
from airflow_abs.core.simulate.simulation import decide_all, simulate
from tests.core.simulated_jobs import make_region, sales_job, timed

MIB = 2**20
TRUE = Costs(
    {
        "orders": RegionCost(10.0, 0.5, 0.002),
        "customers": RegionCost(10.2, 0.4, 0.001),
        "joined": RegionCost(3.0, 1.0, 0.004),
        "totals": RegionCost(2.0, 0.8, 0.001),
    },
    hop=2.5,
    interval=0.25,
)


def test_a_subtask_with_coalesced_inputs_is_one_spark_task_and_one_file() -> None:
    alone = Spread(1, shuffles=True, coalesced=True)
    assert RegionCost(0.0, 2.0, 1.0).spark_tasks(6, alone) == [8.0]
    assert alone.tasks(1000 * MIB) == alone.files(1000 * MIB) == 1


@pytest.mark.parametrize(
    ("size", "slots", "tasks"),
    [
        (0, 4, 1),
        (6 * MIB, 4, 2),  # pieces of at least 4 MiB
        (100 * MIB, 4, 4),  # one for each slot
        (100 * MIB, 1, 1),
        (1000 * MIB, 1, 8),  # of at most 128 MiB
    ],
)
def test_others_are_cut_as_spark_cuts_files(size: int, slots: int, tasks: int) -> None:
    spread = Spread(slots, shuffles=False, coalesced=False)
    assert spread.tasks(size) == spread.files(size) == tasks


def test_sources_are_cut_so_that_what_a_spark_task_reads_can_be_sorted_in_memory() -> None:
    assert Spread(1, shuffles=False, coalesced=False, reads_source=True).files(100 * MIB) == 4  # of at most 32 MiB


def test_a_shuffle_inside_a_subtask_decides_how_many_files_it_writes() -> None:
    spread = Spread(4, shuffles=True, coalesced=False)
    assert [spread.files(size) for size in (0, 100 * MIB, 100_000 * MIB)] == [1, 4, 200]  # of at most 32 MiB


def fit(*runs: tuple[int, int, float], fixed_if_alike: float = 1.0) -> tuple[float, float]:
    return fit_region([RegionWorkload(*run) for run in runs], fixed_if_alike)


def test_two_runs_tell_seconds_per_subtask_from_those_per_byte() -> None:
    # 2 subtasks and 100 bytes: 2 * 3 + 100 * 0.5; 4 and 1000: 4 * 3 + 1000 * 0.5
    assert fit((2, 100, 56.0), (4, 1000, 512.0)) == pytest.approx((3.0, 0.5))


def test_neither_is_ever_negative() -> None:
    assert fit((1, 100, 1.0), (1, 1000, 20.0))[0] == 0.0
    fixed, per_byte = fit((1, 100, 20.0), (1, 1000, 10.0))
    assert (per_byte, 10.0 < fixed < 20.0) == (0.0, True)


def test_runs_that_are_alike_leave_the_seconds_per_subtask_to_a_guess() -> None:
    assert fit((2, 100, 56.0), fixed_if_alike=3.0) == pytest.approx((3.0, 0.5))
    assert fit((2, 100, 56.0), fixed_if_alike=50.0) == pytest.approx((14.0, 0.28))  # at most half of 28
    assert fit((2, 0, 56.0), fixed_if_alike=3.0) == (28.0, 0.0)


def larger(factor: float) -> RecordedJob:
    """The job of another day, under the true costs."""
    job = sales_job()
    decisions = decide_all(job, Growth(job, Scenario(factor)))
    grown = [
        replace(
            region,
            decision=decisions[region.name],
        )
        for region in job.regions
    ]
    return timed(RecordedJob(f"times {factor}", tuple(grown)), TRUE)


def test_costs_that_were_true_are_found_again() -> None:
    costs = fit_costs([timed(sales_job(), TRUE), larger(5.0)])
    assert costs.interval == pytest.approx(0.25)
    assert costs.hop == pytest.approx(2.5)  # the mean of 3.0 and 2.0
    assert {name: each.delay for name, each in costs.regions.items()} == pytest.approx(
        {name: each.delay for name, each in TRUE.regions.items()}
    )
    for factor in (0.3, 2.0, 20.0):
        told, true = (simulate(sales_job(), each, Scenario(factor)).wall for each in (costs, TRUE))
        assert told == pytest.approx(true, rel=0.1)


@given(st.lists(st.tuples(st.floats(0.1, 5.0), st.floats(1e-4, 0.02)), min_size=4, max_size=4))
def test_the_fitted_simulation_of_a_run_takes_as_long_as_the_run(numbers: list[tuple[float, float]]) -> None:
    true = Costs(
        {name: RegionCost(TRUE.regions[name].delay, *each) for name, each in zip(TRUE.regions, numbers, strict=True)},
        2.5,
        0.25,
    )
    job = timed(sales_job(), true)
    told = simulate(job, fit_costs([job]), Scenario())
    really = max(span.end for span in job.spans.values())
    assert max(region.span.end for region in told.regions) == pytest.approx(really, rel=0.1)


def test_a_job_of_one_subtask_takes_what_airflow_usually_needs() -> None:
    alone = RecordedJob("one", (make_region("orders", files=(10,)),))
    alone = timed(alone, Costs({"orders": RegionCost(9.0, 1.0, 0.0)}, 0.0, 0.0))
    costs = fit_costs([alone])
    assert (costs.hop, costs.interval) == (AirflowCosts().hop, AirflowCosts().interval)


def test_runs_of_different_jobs_are_refused() -> None:
    job = timed(sales_job(), TRUE)
    other = RecordedJob("other", job.regions[:2])
    with pytest.raises(InvalidValueError, match=r"run other: expected the regions .* found orders, customers"):
        fit_costs([job, other])


def test_a_run_without_times_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="it has no record of when the subtasks of orders ran"):
        fit_costs([sales_job()])


def test_a_run_without_slots_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="its number of slots is not recorded"):
        fit_costs([timed(sales_job(slots=None), TRUE)])


def test_a_region_before_its_producer_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="'joined' reads customers, orders"):
        RecordedJob("odd", tuple(reversed(sales_job().regions[2:3])))


def test_times_behind_an_untimed_region_are_not_known() -> None:
    job = timed(sales_job(), TRUE)
    untimed = replace(job.regions[0], starts=(), seconds=())
    assert set(RecordedJob("half", (untimed, *job.regions[1:])).spans) == {"customers"}


def test_options_that_are_not_given_stay() -> None:
    recorded = sales_job().regions[0].options
    assert ReplayOptions().applied_to(recorded) == recorded
    given = ReplayOptions(target_bytes=7, min_parallelism=9, max_parallelism=4, slots=3).applied_to(recorded)
    assert given == replace(recorded, target_bytes=7, min_parallelism=4, max_parallelism=4, slots=3)
