"""docs/start/concepts.md: the decision that its picture shows is the one that would be made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_abs.core.decide.region_decision import RegionDecision, decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions
from airflow_abs.core.graph.partitioning import Partitioning

DOCS = Path(__file__).parents[2] / "docs"
PAGE = " ".join((DOCS / "start" / "concepts.md").read_text().split())
PICTURE = re.findall(r">([^<>]+)</text>", (DOCS / "images" / "concepts-decision.svg").read_text())
BARS = [int(text.removesuffix(" MiB")) for text in PICTURE if text.endswith(" MiB")]
MIB = 2**20


def decide(sizes: list[int], target: int) -> RegionDecision:
    orders = BlockingInput("orders", Partitioning.HASH, [[size * MIB for size in sizes]])
    return decide_region("enriched", [orders], [], RegionOptions(target_bytes=target * MIB, max_parallelism=8))


def test_the_picture_shows_the_ranges_that_are_decided() -> None:
    decision = decide(BARS[:8], 64)
    ranges = re.findall(r"\(subpartitions (\[\d, \d\))\)", decision.describe())
    assert [text for text in PICTURE if text.startswith("[")] == ranges
    assert [subtask.bytes // MIB for subtask in decision.subtasks] == BARS[8:]


@pytest.mark.parametrize(
    ("target", "factor", "said"),
    [
        (128, 1, "With a target of 128 MiB the same bytes would be 3 subtasks"),
        (64, 10, "ten times the bytes would be 8"),
    ],
)
def test_the_page_says_what_other_targets_and_bytes_come_to(target: int, factor: int, said: str) -> None:
    assert said in PAGE
    assert len(decide([size * factor for size in BARS[:8]], target).subtasks) == int(re.findall(r"be (\d)", said)[0])
