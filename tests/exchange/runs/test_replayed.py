"""Replay is exact: whatever the sizes, the strategy and the attempts, the recorded decision comes out again."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_abs.exchange.runs.replayed import replay_run
from airflow_abs.exchange.runs.run_reading import read_run
from tests.recorded_runs import copied_run, revenue_run


@settings(max_examples=40, deadline=None)
@given(
    cells=st.lists(st.integers(0, 5000), min_size=1, max_size=64),
    target=st.integers(1, 20_000),
    strategy=st.sampled_from(["balanced", "power_of_two"]),
    maximum=st.integers(1, 24),
    retried=st.booleans(),
    rewritten=st.booleans(),
)
def test_the_recorded_options_give_exactly_the_recorded_decision(
    cells: list[int], target: int, strategy: str, maximum: int, retried: bool, rewritten: bool
) -> None:
    def sizes(region: str, index: int, subpartition: int) -> int:
        return cells[(len(region) * 7 + index * 5 + subpartition) % len(cells)]

    with tempfile.TemporaryDirectory() as folder:
        run = revenue_run(Path(folder), sizes=sizes, target_bytes=target, strategy=strategy, max_parallelism=maximum)
        for region in run.regions:
            for index in range(run.decide(region.name).parallelism):
                run.commit(region.name, index)
            if retried:  # its first attempt was committed, then lost: a later one replaces it before anybody decides
                run.commit(region.name, 0, attempt=2, grown=7)
        if rewritten:  # and again after everybody has decided
            run.commit("orders", 0, attempt=3, grown=900)
        replayed = replay_run(read_run(run.folder))
        assert [each.region for each in replayed] == ["orders", "customers", "enriched", "by_region"]
        assert [each.again for each in replayed] == [run.stored[each.region].decision for each in replayed]
        assert all(each.is_same for each in replayed)


@settings(max_examples=20, deadline=None)
@given(cells=st.lists(st.integers(0, 900), min_size=1, max_size=32), target=st.integers(1, 4000))
def test_decisions_about_files_come_out_again(cells: list[int], target: int) -> None:
    def sizes(region: str, index: int, subpartition: int) -> int:
        return cells[(len(region) * 7 + index * 5 + subpartition) % len(cells)]

    with tempfile.TemporaryDirectory() as folder:
        run = copied_run(Path(folder), sizes=sizes, target_bytes=target)
        run.run()
        replayed = replay_run(read_run(run.folder))
        assert [each.again for each in replayed] == [run.stored[each.region].decision for each in replayed]
