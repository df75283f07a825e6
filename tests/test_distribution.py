"""How the tests are dealt out: a group that is renamed would be forgotten without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distribution import FIRST, group_of, rank_of

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("rank", "places"), [*enumerate(FIRST)])
def test_what_comes_first_is_there_and_stays_together(rank: int, places: tuple[str, ...]) -> None:
    assert all((ROOT / place).exists() for place in places)
    tests = [f"{place}test_any.py::test_any" if place.endswith("/") else f"{place}::test_any" for place in places]
    assert {rank_of(test) for test in tests} == {rank}
    assert len({group_of(test) for test in tests}) == 1


def test_a_folder_that_shares_services_is_a_package_so_that_they_end_with_its_last_test() -> None:
    folders = [place for places in FIRST for place in places if place.endswith("/")]
    assert all((ROOT / folder / "__init__.py").exists() for folder in folders)


def test_all_others_are_dealt_out_by_file_after_those() -> None:
    test = "tests/core/slots/test_slot_pool.py::test_one[a::b]"
    assert group_of(test) == "tests/core/slots/test_slot_pool.py"
    assert rank_of(test) == len(FIRST)
