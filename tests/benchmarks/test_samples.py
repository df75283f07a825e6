from __future__ import annotations

import pytest

from benchmarks.samples import Sample, Spread, ratio, rows_to_markdown, spread, table_of


def sample(peer: str, number: int, wall: float, cpu: float, problem: str | None = None) -> Sample:
    return Sample("chain", peer, number, wall, {"spark": cpu - 1.0, "workers": 1.0}, problem)


def test_the_spread_of_values_is_their_median_with_both_ends() -> None:
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert (str(spread([3.0, 1.0, 2.0])), str(spread([2.0]))) == ("2.0 (1.0-3.0)", "2.0")
    with pytest.raises(ValueError, match="no values; expected at least one"):
        spread([])


def test_a_ratio_is_taken_within_each_round() -> None:
    # 10/20, 40/40 and 30/40: the median is 0.75; the ratio of the medians would be 30/40 too, of the sums 80/100
    walls = ((10.0, 20.0), (40.0, 40.0), (30.0, 40.0))
    samples = [sample("ours", n, ours, 2.0) for n, (ours, _) in enumerate(walls)]
    samples += [sample("submit", n, theirs, 4.0) for n, (_, theirs) in enumerate(walls)]
    assert ratio(samples, "ours", "submit", "wall") == 0.75
    assert ratio(samples, "ours", "submit", "cpu_seconds") == 0.5
    assert ratio(samples, "ours", "fused", "wall") is None


def test_a_table_shows_the_first_against_every_peer_and_wrong_outputs() -> None:
    samples = [sample("ours", 1, 10.0, 5.0), sample("submit", 1, 20.0, 10.0, problem="chain: of 5 rows ...")]
    assert table_of(samples) == [
        "| peer | runs | wall s | CPU s | ours/it wall | ours/it CPU | output |",
        "|---|---|---|---|---|---|---|",
        "| ours | 1 | 10.0 | 5.0 |  |  | right |",
        "| submit | 1 | 20.0 | 10.0 | 0.50 | 0.50 | 1 WRONG |",
    ]
    assert "pooled/it wall" in table_of([sample("pooled", 1, 10.0, 5.0)])[0]


def test_rows_become_a_table_under_their_keys() -> None:
    assert rows_to_markdown([{"what": "write", "seconds": 1.5}]) == [
        "| what | seconds |",
        "|---|---|",
        "| write | 1.5 |",
    ]
