"""The critical path of a run that has happened."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.timeline.critical_path import BETWEEN, Kind, Phase, Segment, Span, find_critical_path


def span(name: str, after: tuple[str, ...], *moments: float, kind: Kind = Kind.TASK) -> Span:
    """One phase for each pair of moments, labelled with the name."""
    pairs = zip(moments[::2], moments[1::2], strict=True)
    return Span(name, name.partition("[")[0], after, tuple(Phase(kind, name, *pair) for pair in pairs))


def told(path: tuple[Segment, ...]) -> list[tuple[str, str | None, float, float]]:
    return [(each.phase.label, each.name, each.phase.start, each.phase.end) for each in path]


def test_it_goes_back_from_the_end_to_whatever_ended_last() -> None:
    spans = [
        span("plan", (), 0.5, 2.0),
        span("orders[0]", ("plan",), 2.5, 5.0),
        span("orders[1]", ("plan",), 2.5, 6.0),
        span("customers[0]", ("plan",), 2.5, 3.0),
        span("enriched[0]", ("orders", "customers"), 6.5, 9.0),
        span("enriched[1]", ("orders", "customers"), 6.5, 8.0),
    ]
    assert told(find_critical_path(spans, 0.0, 9.5)) == [
        (BETWEEN, "plan", 0.0, 0.5),
        ("plan", "plan", 0.5, 2.0),
        (BETWEEN, "orders[1]", 2.0, 2.5),
        ("orders[1]", "orders[1]", 2.5, 6.0),
        (BETWEEN, "enriched[0]", 6.0, 6.5),
        ("enriched[0]", "enriched[0]", 6.5, 9.0),
        (BETWEEN, None, 9.0, 9.5),
    ]


def test_a_gap_inside_a_task_is_a_wait_for_that_task() -> None:
    assert told(find_critical_path([span("a", (), 0.0, 1.0, 3.0, 4.0)], 0.0, 4.0)) == [
        ("a", "a", 0.0, 1.0),
        (BETWEEN, "a", 1.0, 3.0),
        ("a", "a", 3.0, 4.0),
    ]


def test_what_ended_before_the_run_began_again_is_no_part_of_it() -> None:
    spans = [span("plan", (), 0.0, 2.0), span("orders", ("plan",), 100.0, 105.0)]
    assert told(find_critical_path(spans, 99.0, 105.0)) == [
        (BETWEEN, "orders", 99.0, 100.0),
        ("orders", "orders", 100.0, 105.0),
    ]


def test_a_producer_that_ran_again_later_is_not_what_its_reader_waited_for() -> None:
    spans = [span("orders", (), 10.0, 12.0), span("enriched", ("orders",), 4.0, 6.0)]
    assert told(find_critical_path(spans, 0.0, 6.0)) == [
        (BETWEEN, "enriched", 0.0, 4.0),
        ("enriched", "enriched", 4.0, 6.0),
    ]


def test_clocks_that_differ_make_no_overlap() -> None:
    spans = [span("orders", (), 0.0, 4.2), span("enriched", ("orders",), 4.0, 6.0)]
    assert told(find_critical_path(spans, 0.0, 6.0)) == [
        ("orders", "orders", 0.0, 4.0),
        ("enriched", "enriched", 4.0, 6.0),
    ]


def test_of_what_still_runs_the_one_that_began_first_is_waited_for() -> None:
    spans = [span("a", (), 1.0, 9.0), span("b", (), 2.0, 9.0)]
    assert told(find_critical_path(spans, 0.0, 9.0))[-1] == ("a", "a", 1.0, 9.0)


def test_a_run_without_tasks_is_all_wait_and_one_without_time_is_nothing() -> None:
    assert told(find_critical_path([], 1.0, 3.0, between="nothing")) == [("nothing", None, 1.0, 3.0)]
    assert find_critical_path([span("a", (), 0.0, 1.0)], 2.0, 2.0) == ()


@pytest.mark.parametrize("moments", [(), (2.0, 1.0), (0.0, 2.0, 1.0, 3.0)])
def test_phases_that_are_not_one_after_the_other_are_refused(moments: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="a: expected phases one after the other, found"):
        span("a", (), *moments)


@st.composite
def runs(draw: st.DrawFn) -> list[Span]:
    """Tasks in any order of time, also impossible ones, of up to three instances and three phases."""
    found: list[Span] = []
    for number in range(draw(st.integers(0, 6))):
        after = tuple(draw(st.sets(st.sampled_from([f"t{k}" for k in range(number)])))) if number else ()
        for index in range(draw(st.integers(1, 3))):
            count = 2 * draw(st.integers(1, 3))
            moments = sorted(draw(st.lists(st.integers(0, 40), min_size=count, max_size=count)))
            found.append(span(f"t{number}[{index}]", after, *map(float, moments)))
    return found


@given(runs(), st.integers(0, 40), st.integers(0, 40))
def test_segments_cover_the_run_without_gap_or_overlap(spans: list[Span], one: int, other: int) -> None:
    start, end = float(min(one, other)), float(max(one, other))
    path = find_critical_path(spans, start, end)
    phases = [segment.phase for segment in path]
    assert (phases[0].start, phases[-1].end) == (start, end) if start < end else not phases
    assert all(before.end == after.start for before, after in pairwise(phases))
    assert all(phase.start < phase.end for phase in phases)
    # Whatever is said to have happened did happen, then.
    done = {(each.name, phase.start, phase.end) for each in spans for phase in each.phases}
    for segment in path:
        if segment.phase.label != BETWEEN:
            first, last = segment.phase.start, segment.phase.end
            own = sorted((low, high) for name, low, high in done if name == segment.name and high > low)
            inside = [(max(low, first), min(high, last)) for low, high in own if low < last and high > first]
            assert sum(high - low for low, high in inside) == last - first


@given(runs())
def test_the_order_in_which_tasks_are_told_changes_nothing(spans: list[Span]) -> None:
    assert find_critical_path(spans, 0.0, 41.0) == find_critical_path(spans[::-1], 0.0, 41.0)
