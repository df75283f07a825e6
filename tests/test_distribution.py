"""How the tests are dealt out: a group that is renamed would be forgotten without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distribution import FIRST, group_of, rank_of

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("group", FIRST)
def test_what_comes_first_is_there(group: str) -> None:
    assert (ROOT / group).exists()
    assert rank_of(f"{group}test_any.py::test_any") == FIRST.index(group)


def test_a_folder_that_shares_services_is_one_group_and_is_a_package_so_that_they_end_with_it() -> None:
    for folder in (group for group in FIRST if group.endswith("/")):
        assert {group_of(f"{folder}test_one.py::test_one"), group_of(f"{folder}test_two.py::test_two")} == {folder}
        assert (ROOT / folder / "__init__.py").exists()


def test_all_others_are_dealt_out_by_file_after_those() -> None:
    test = "tests/core/slots/test_slot_pool.py::test_one[a::b]"
    assert group_of(test) == "tests/core/slots/test_slot_pool.py"
    assert rank_of(test) == len(FIRST)
