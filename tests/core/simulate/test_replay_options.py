"""What a replay decides by instead of what was recorded."""

from __future__ import annotations

from airflow_abs.core.decide.region_inputs import RegionOptions
from airflow_abs.core.simulate.replay_options import ReplayOptions

RECORDED = RegionOptions(128 * 2**20, slots=2, most_waves=2)


def test_a_target_that_is_given_is_kept_and_one_that_is_not_grows_as_it_did() -> None:
    assert ReplayOptions(target_bytes=2**20).applied_to(RECORDED).most_waves is None
    assert ReplayOptions(max_parallelism=8).applied_to(RECORDED).most_waves == 2
