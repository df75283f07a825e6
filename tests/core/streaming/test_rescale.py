"""What follows the slots, and how many of them are wanted."""

from __future__ import annotations

import pytest

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.slots.resource_wait import Resources
from airflow_abs.core.streaming.phases import RescaleOptions
from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.slots_wanted import SlotsWanted


def test_what_follows_the_slots_is_so_much_for_each() -> None:
    rescale = Rescale(partitions_per_slot=2, files_per_slot=3, records_per_slot=5)
    assert (rescale.partitions(4), rescale.files(4), rescale.records(4)) == (8, 12, 20)
    assert (Rescale().files(4), Rescale().records(4)) == (None, None)
    assert Rescale(cooldown=1, stabilization=2, max_delay=3).phases == RescaleOptions(1, 2, 3)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("partitions_per_slot", 1),
        ("files_per_slot", 1),
        ("records_per_slot", 1),
        ("min_increase", 1),
        ("cooldown", 0),
        ("stabilization", 0),
        ("max_delay", 0),
    ],
)
def test_numbers_below_their_least_are_named(name: str, least: int) -> None:
    with pytest.raises(InvalidValueError, match=f"{name}: expected .* of at least {least}, found {least - 1}"):
        Rescale(**{name: least - 1})


def test_where_state_is_repartitioned_is_a_text() -> None:
    with pytest.raises(InvalidValueError, match=r"repartition_state: expected the master URL .*, such as 'local\[2\]'"):
        Rescale(repartition_state=True)  # type: ignore[arg-type]


def test_no_more_slots_are_used_than_are_wanted() -> None:
    wanted = SlotsWanted(4, 2)
    assert [wanted.parallelism(slots) for slots in (0, 1, 2, 3, 4, 9)] == [None, None, 2, 3, 4, 4]


def test_without_a_number_that_is_wanted_it_takes_all() -> None:
    # 1.5 x 2 = 3 -> 4, and never below 128: nobody waits for more than that
    wanted = SlotsWanted.of(None, 2)
    assert wanted == SlotsWanted(128, 2, takes_all=True)
    assert [wanted.judge(slots) for slots in (1, 2, 128)] == [
        Resources.INSUFFICIENT,
        Resources.SUFFICIENT,
        Resources.DESIRED,
    ]
    assert [wanted.parallelism(slots) for slots in (1, 2, 128, 500)] == [None, 2, 128, 500]
    # 500 are not all that it wants: an executor more or less is a change like any other, which has to last
    assert [wanted.judge_change(500, slots, 4) for slots in (499, 502, 504)] == [
        Resources.SUFFICIENT,
        Resources.INSUFFICIENT,
        Resources.SUFFICIENT,
    ]
    assert SlotsWanted.of(3, 2) == SlotsWanted(3, 2)
    # 1.5 x 100 = 150 -> 256; never above 32768
    assert [SlotsWanted.of(None, sufficient).desired for sufficient in (85, 100, 32768)] == [128, 256, 32768]
    with pytest.raises(InvalidValueError, match="of at most 32768, found 32769"):
        SlotsWanted.of(None, 32769)


def test_a_change_is_worth_a_restart_if_it_changes_the_parallelism() -> None:
    wanted = SlotsWanted(4, 2)
    assert wanted.judge_change(4, 9, 1) is Resources.INSUFFICIENT  # still four
    assert wanted.judge_change(4, 1, 1) is Resources.INSUFFICIENT  # it could not run at all
    assert wanted.judge_change(4, 3, 2) is Resources.SUFFICIENT  # it must shrink
    assert wanted.judge_change(2, 3, 2) is Resources.INSUFFICIENT  # a small step
    assert wanted.judge_change(3, 5, 2) is Resources.DESIRED
