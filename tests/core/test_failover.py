"""Who runs again after rows were renewed: whoever has read them, each once, and nobody else."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.failover import Made, Subtask, find_outdated


@dataclass
class Run:
    """Subtasks by region, producers first, and which subtasks each of them reads."""

    reads: dict[str, list[dict[str, tuple[int, int]]]]
    made: dict[str, dict[int, Made | None]] = field(default_factory=dict)
    ran: list[Subtask] = field(default_factory=list)

    def run(self, subtask: Subtask, *, alike: bool = False) -> None:
        """With rows of its own, or `alike`: those that it had."""
        region, index = subtask
        before = self.made.setdefault(region, {}).get(index)
        attempt = 1 if before is None else before.counts[-1] + 1
        first = before.counts[0] if alike and before is not None else attempt
        read = {
            producer: [(each, each + 1, self.now((producer, each)).counts[-1]) for each in range(*span)]
            for producer, span in self.reads[region][index].items()
        }
        self.made[region][index] = Made(range(first, attempt + 1), read)
        self.ran.append(subtask)

    def now(self, subtask: Subtask) -> Made:
        found = self.made[subtask[0]][subtask[1]]
        assert found is not None
        return found

    def reads_any(self, subtask: Subtask, of: set[Subtask]) -> bool:
        region, index = subtask
        return any(
            (producer, each) in of for producer, span in self.reads[region][index].items() for each in range(*span)
        )

    def with_readers(self, first: set[Subtask]) -> set[Subtask]:
        """And theirs, and so on."""
        reached = set(first)
        for subtask in all_of(self):
            if self.reads_any(subtask, reached):
                reached.add(subtask)
        return reached


@st.composite
def runs(draw: st.DrawFn) -> Run:
    reads: dict[str, list[dict[str, tuple[int, int]]]] = {}
    for number in range(draw(st.integers(2, 6))):
        producers = draw(st.sets(st.sampled_from(sorted(reads)), max_size=3)) if reads else set()
        reads[f"r{number}"] = [
            {name: draw(spans(len(reads[name]))) for name in sorted(producers)} for _ in range(draw(st.integers(1, 3)))
        ]
    run = Run(reads)
    for region, subtasks in reads.items():
        for index in range(len(subtasks)):
            run.run((region, index))
    run.ran.clear()
    return run


def spans(subtasks: int) -> st.SearchStrategy[tuple[int, int]]:
    """All of them as a hash edge reads, or some as a rescale edge does."""
    some = st.tuples(st.integers(0, subtasks - 1), st.integers(0, subtasks - 1)).map(
        lambda two: (min(two), max(two) + 1)
    )
    return st.just((0, subtasks)) | some


def all_of(run: Run) -> list[Subtask]:
    return [(region, index) for region, subtasks in run.reads.items() for index in range(len(subtasks))]


@given(runs(), st.data())
def test_whoever_has_read_renewed_rows_runs_again_once_and_nobody_else(run: Run, data: st.DataObject) -> None:
    renewed = data.draw(st.sets(st.sampled_from(all_of(run)), max_size=3))
    for subtask in filter(renewed.__contains__, all_of(run)):
        run.run(subtask)
    run.ran.clear()
    outdated = find_outdated(run.made)
    behind = run.with_readers({each for each in all_of(run) if each not in renewed and run.reads_any(each, renewed)})
    assert set(outdated) == behind
    for subtask in outdated:
        run.run(subtask)
    assert find_outdated(run.made) == {}
    assert sorted(run.ran) == sorted(behind)
    for subtask in all_of(run):
        for producer, read in run.now(subtask).read.items():
            assert all(attempt in run.now((producer, index)).counts for index, _, attempt in read), "no mixture"


@given(runs(), st.data())
def test_rows_that_are_recomputed_alike_outdate_nobody(run: Run, data: st.DataObject) -> None:
    for subtask in data.draw(st.lists(st.sampled_from(all_of(run)), max_size=4)):
        run.run(subtask, alike=True)
    assert find_outdated(run.made) == {}


@given(runs(), st.data())
def test_what_has_no_manifest_any_more_counts_as_renewed(run: Run, data: st.DataObject) -> None:
    region, index = lost = data.draw(st.sampled_from(all_of(run)))
    run.made[region][index] = None
    assert set(find_outdated(run.made)) == run.with_readers({lost})


def test_it_says_whose_rows_are_to_be_read_anew() -> None:
    made: dict[str, dict[int, Made | None]] = {
        "dice": {0: Made(range(1, 2)), 1: Made(range(2, 3))},
        "odd": {0: Made(range(1, 2), {"dice": [(0, 2, 1)]})},
        "total": {0: Made(range(1, 2), {"odd": [(0, 1, 1)], "never": [(0, 9, 7)]})},
    }
    assert find_outdated(made) == {("odd", 0): ("dice", 1), ("total", 0): ("odd", 0)}
