from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.exchange.records.plan import PlannedRegion
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.spark.run.pieces import Piece, cut_pieces, why_it_stays_whole

REGION = PlannedRegion("r", ("r",), (), (), (), (), None, 16, None)


def files(*sizes: int) -> list[SourceFile]:
    return [SourceFile(f"part-{number}", size) for number, size in enumerate(sizes)]


@given(
    st.integers(0, 20),
    st.lists(st.integers(0, 100), min_size=1, max_size=16),
    st.lists(st.integers(1, 100), max_size=6),
    st.integers(1, 8),
)
def test_pieces_cover_every_subpartition_and_every_file_once(
    start: int, sizes: list[int], listed: list[int], count: int
) -> None:
    whole = Piece(IndexRange(start, start + len(sizes)), {"s": files(*listed)})
    pieces = cut_pieces(whole, sizes, count)
    assert 1 <= len(pieces) <= count
    covered = [index for piece in pieces if piece.subpartitions for index in piece.subpartitions]
    assert covered == list(range(start, start + len(sizes)))
    assert [file for piece in pieces for file in piece.files["s"]] == files(*listed)


def test_files_alone_are_cut_by_bytes() -> None:
    pieces = cut_pieces(Piece(None, {"s": files(10, 10, 20, 40)}), [], 2)
    assert [[file.bytes for file in piece.files["s"]] for piece in pieces] == [[10, 10, 20], [40]]
    assert [piece.number for piece in pieces] == [0, 1]


def test_what_cannot_be_cut_comes_back_whole() -> None:
    for whole in (Piece(IndexRange(3, 4), {}), Piece(None, {}), Piece(None, {"s": files(10)})):
        assert cut_pieces(whole, [7] if whole.subpartitions else [], 4) == [whole]


@pytest.mark.parametrize(
    ("region", "reason"),
    [
        (REGION, None),
        (replace(REGION, parallelism=4), None),
        (replace(REGION, parallelism=1), "its parallelism is set to 1"),
        (replace(REGION, subpartitions=1), "its max_parallelism is 1"),
        (replace(REGION, single_subtask_reason="an inner edge is pipelined"), "an inner edge is pipelined"),
    ],
)
def test_a_region_that_needs_all_rows_at_once_stays_whole(region: PlannedRegion, reason: str | None) -> None:
    found = why_it_stays_whole(region)
    assert found is None if reason is None else (found or "").startswith(reason)
