"""A recorded run with more bytes, or other settings."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.simulate.cost import Costs, RegionCost
from airflow_abs.core.simulate.growth import Growth, Scenario, factor_for
from airflow_abs.core.simulate.recorded_job import RecordedJob, RecordedResult
from airflow_abs.core.simulate.replay_options import ReplayOptions
from airflow_abs.core.simulate.simulated_job import SimulatedJob
from airflow_abs.core.simulate.simulation import decide_all, manifest_bytes, simulate, xcom_bytes
from tests.core.simulated_jobs import make_region, sales_job

COSTS = Costs({name: RegionCost(2.0, 1.0, 0.001) for name in ("orders", "customers", "joined", "totals")}, 2.5, 0.0)


def run(factor: float = 1.0, **options: int) -> SimulatedJob:
    return simulate(sales_job(), COSTS, Scenario(factor, ReplayOptions(**options)))


def fan_out(job: SimulatedJob) -> dict[str, int]:
    return {region.name: region.decision.parallelism for region in job.regions}


def test_a_factor_of_one_gives_the_recorded_decisions() -> None:
    job = sales_job()
    assert decide_all(job, Growth(job, Scenario())) == {region.name: region.decision for region in job.regions}


def test_a_run_in_numbers() -> None:
    told = run()
    assert fan_out(told) == {"orders": 3, "customers": 1, "joined": 4, "totals": 2}
    assert [region.waves for region in told.regions] == [2, 1, 2, 1]
    # customers is queued behind the 3 subtasks of orders: 2.5 and 1.9 s, 1.6 s until 5.5, 1.3 s until 5.8 s
    # joined reads 2600 bytes and customers' 200 each time: at most 700 + 200
    orders, customers, joined, totals = told.regions
    assert orders.span.start == customers.span.start == 2.0
    assert (orders.span.end, customers.span.end) == pytest.approx((5.5, 5.8))
    assert (joined.largest, joined.bytes_in) == (900, 2800)
    assert joined.span.start == pytest.approx(7.8)
    assert totals.span.end == pytest.approx(totals.span.start + 1.8)
    # half a hop of 2.5 s to get to plan, and for each of commit and release
    assert told.wall == pytest.approx(totals.span.end + 3.75)
    assert told.airflow_wall == pytest.approx(2.0 + 2.0 + 2.0 + 3.75)
    assert told.slot_seconds == pytest.approx(10 + 0.001 * (3000 + 300 + 2600 + 4 * 200 + 1600))
    # plan, 4 decides, 10 subtasks, commit, release
    assert (told.subtasks, told.task_instances) == (10, 17)
    assert told.airflow_cpu == pytest.approx(17 * 1.7)
    assert (told.source_bytes, told.exchange_bytes) == (3300, 2600 + 200 + 1600 + 40)
    assert told.most_subtasks_at_once == 4
    assert told.xcom_bytes > 10 * 160
    assert told.manifest_bytes > 10 * 200


def test_more_bytes_are_more_subtasks_up_to_the_maximum() -> None:
    # 3000 bytes of customers are 3 subtasks, which 2 slots in 2 waves make 4
    assert fan_out(run(10.0)) == {"orders": 8, "customers": 4, "joined": 8, "totals": 8}


def test_more_slots_are_fewer_waves_and_less_time() -> None:
    few, many = run(10.0), run(10.0, slots=8)
    assert [region.waves for region in few.regions] == [4, 2, 4, 4]
    assert [region.waves for region in many.regions] == [1, 1, 1, 1]
    assert many.wall < few.wall


def test_a_higher_maximum_is_also_a_finer_grid() -> None:
    told = run(10.0, max_parallelism=32)
    assert fan_out(told) == {"orders": 30, "customers": 4, "joined": 28, "totals": 16}
    assert told.regions[0].xcom_bytes > run(10.0).regions[0].xcom_bytes


def test_what_is_fixed_does_not_grow_nor_what_comes_of_it() -> None:
    told = simulate(sales_job(), COSTS, Scenario(10.0, fixed=frozenset({"customers"})))
    assert [region.exchange_bytes for region in told.regions] == [26000, 200, 16000, 400]
    told = simulate(sales_job(), COSTS, Scenario(10.0, fixed=frozenset({"orders"})))
    assert [region.exchange_bytes for region in told.regions] == [2600, 2000, 1600, 40]


def test_what_reads_only_broadcast_inputs_grows_as_they_do() -> None:
    small = make_region("small", files=(10,), writes=5)
    reader = make_region("reader", reads={"small": (Partitioning.BROADCAST, [[5]])}, writes=7)
    costs = Costs({name: RegionCost(1.0, 1.0, 0.0) for name in ("small", "reader")}, 1.0, 0.0)
    told = simulate(RecordedJob("b", (small, reader)), costs, Scenario(10.0))
    assert [region.exchange_bytes for region in told.regions] == [50, 70]
    assert told.wall == 1 + 1 + 1 + 1 + 1  # no commit


def test_something_fixed_that_reads_no_files_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="joined reads no files; expected some of customers, orders"):
        simulate(sales_job(), COSTS, Scenario(fixed=frozenset({"joined"})))


def test_unknown_slots_must_be_told() -> None:
    job = sales_job(slots=None)
    with pytest.raises(InvalidValueError, match="its number of slots is not recorded; give the slots of the scenario"):
        simulate(job, COSTS, Scenario())
    assert simulate(job, COSTS, Scenario(options=ReplayOptions(slots=4))).slots == 4


def test_the_factor_for_a_number_of_bytes_leaves_out_what_does_not_grow() -> None:
    assert factor_for(sales_job(), 6600) == 2.0
    assert factor_for(sales_job(), 6300, frozenset({"customers"})) == 2.0
    with pytest.raises(InvalidValueError, match=r"300 B of them stay as they are, 2.9 KiB grow"):
        factor_for(sales_job(), 200, frozenset({"customers"}))


def test_subtasks_without_workers_cost_airflow_less() -> None:
    told = simulate(sales_job(), COSTS, Scenario(from_trigger=True))
    assert told.airflow_cpu == pytest.approx(3 * 1.7 + (4 + 10) * 0.23)  # plan, commit, release; decisions, subtasks


def test_hot_subpartitions_are_dealt_out_along_the_producers_that_there_would_be() -> None:
    orders = make_region("orders", files=(900, 900), writes=2000)
    hot = {"orders": (Partitioning.HASH, [[10, 10, 950, 10], [10, 10, 950, 10]])}
    joined = make_region("joined", reads=hot, splittable=("joined.orders",), max_parallelism=32, target_bytes=500)
    job = RecordedJob("hot", (orders, joined))
    assert decide_all(job, Growth(job, Scenario()))["joined"] == joined.decision
    grown = decide_all(job, Growth(job, Scenario(4.0)))
    assert grown["orders"].parallelism == 8
    parts = [subtask.hot_part for subtask in grown["joined"].subtasks if subtask.hot_part]
    assert {producer for part in parts for producer in part.read_producers} == set(range(8))


@given(st.floats(0.01, 50), st.floats(0.01, 50), st.integers(1, 9), st.integers(1, 40))
def test_more_bytes_never_make_less_exchange_or_work(one: float, other: float, slots: int, most: int) -> None:
    less, more = (run(factor, slots=slots, max_parallelism=most) for factor in sorted((one, other)))
    assert less.exchange_bytes <= more.exchange_bytes
    assert less.source_bytes <= more.source_bytes
    for region in more.regions:
        assert region.waves == -(-region.decision.parallelism // slots)
        assert region.decision.parallelism <= most
    json.dumps([region.decision.to_json() for region in more.regions])


def test_records_grow_with_subpartitions_and_files() -> None:
    results = [RecordedResult("r", 128 * 1000, 128, name_bytes=100)]
    # 1000 bytes a cell in one subtask: 4 digits
    assert xcom_bytes(results, 1) == 160 + 30 + 128 * 6
    assert manifest_bytes(results, 1, 1) == 200 + 120 + 100 + 240 + 128 * 5
    assert manifest_bytes(results, 1, 2) == 200 + 120 + 100 + 2 * (240 + 128 * 4)
