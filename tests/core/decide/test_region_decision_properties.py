"""What holds for every decision, whatever the bytes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.decide.region_decision import RegionDecision, decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions, SourceInput
from airflow_abs.core.decide.region_parallelism import WAVES
from airflow_abs.core.graph.partitioning import Partitioning

SIZE = st.one_of(st.just(0), st.integers(0, 100), st.integers(0, 10**6))


@st.composite
def regions(draw: st.DrawFn) -> tuple[list[BlockingInput], list[SourceInput], RegionOptions]:
    subpartitions = draw(st.integers(1, 24))
    row = st.lists(SIZE, min_size=subpartitions, max_size=subpartitions)
    inputs = [
        BlockingInput(f"in{k}", Partitioning.HASH, draw(st.lists(row, min_size=1, max_size=3)))
        for k in range(draw(st.integers(0, 2)))
    ]
    files = st.lists(st.lists(SIZE, max_size=4), min_size=1, max_size=5)
    inputs += [BlockingInput(f"f{k}", Partitioning.RESCALE, draw(files)) for k in range(draw(st.integers(0, 2)))]
    if draw(st.booleans()):
        inputs.append(BlockingInput("all", Partitioning.BROADCAST, [[draw(SIZE)]]))
    told = st.none() | st.integers(1, 50)
    sources = [
        SourceInput(f"s{k}", draw(st.lists(SIZE, max_size=9)), parallelism=draw(told))
        for k in range(draw(st.integers(0, 2)))
    ]
    lower = draw(st.integers(1, 6))
    options = RegionOptions(
        target_bytes=draw(st.integers(1, 10**6)),
        strategy=draw(st.sampled_from(("balanced", "balanced", "power_of_two"))),
        min_parallelism=lower,
        max_parallelism=draw(st.integers(2 * lower, 40)),
        default_source_parallelism=draw(st.none() | st.integers(1, 9)),
        slots=draw(st.none() | st.integers(1, 9)),
        most_waves=draw(st.none() | st.integers(1, 3)),
        max_broadcast_ratio=draw(st.none() | st.sampled_from((0, 0.25, 0.9))),
        max_map_length=draw(st.none() | st.integers(1, 40)),
    )
    return inputs, sources, options


def decide(region: tuple[list[BlockingInput], list[SourceInput], RegionOptions]) -> RegionDecision:
    inputs, sources, options = region
    return decide_region("region", inputs, sources, options)


@given(regions())
def test_every_subpartition_file_and_split_is_read_exactly_once(
    region: tuple[list[BlockingInput], list[SourceInput], RegionOptions],
) -> None:
    inputs, sources, _ = region
    decision = decide(region)
    assert len(decision.subtasks) == decision.parallelism >= 1
    assert [subtask.index for subtask in decision.subtasks] == list(range(decision.parallelism))
    partitioned = [entry for entry in inputs if entry.partitioning is Partitioning.HASH]
    if partitioned:
        read = [index for subtask in decision.subtasks for index in subtask.subpartitions or ()]
        assert read == list(range(partitioned[0].subpartitions))
    else:
        assert all(subtask.subpartitions is None for subtask in decision.subtasks)
    for entry in (entry for entry in inputs if entry.is_rescale):  # in order: neighbours read neighbours
        read = [file for subtask in decision.subtasks for file in subtask.files.get(entry.name, ())]
        assert read == list(range(len(entry.file_bytes)))
    for source in sources:
        read = [split for subtask in decision.subtasks for split in subtask.splits[source.name]]
        assert sorted(read) == list(range(len(source.split_bytes)))


@given(regions())
def test_bytes_add_up(region: tuple[list[BlockingInput], list[SourceInput], RegionOptions]) -> None:
    decision = decide(region)
    read = [entry.bytes for entry in decision.inputs if entry.kind != "broadcast"]
    assert decision.total_bytes == sum(read)
    assert decision.max_over_mean >= 1


@given(regions())
def test_the_number_keeps_the_bounds_or_says_which_other_one_forced_it(
    region: tuple[list[BlockingInput], list[SourceInput], RegionOptions],
) -> None:
    inputs, sources, options = region
    decision = decide(region)
    assert decision.parallelism <= options.most_subtasks
    is_source = bool(sources) and all(entry.is_broadcast for entry in inputs)
    told = [min(each.parallelism, max(1, len(each.split_bytes))) for each in sources if each.parallelism]
    if options.default_source_parallelism and is_source and not told:
        assert decision.parallelism <= options.default_source_parallelism
    if told and decision.parallelism < max(told):
        assert any(clamp.used < clamp.decided for clamp in decision.clamps)
    if decision.parallelism < options.min_parallelism:
        assert decision.clamps[-1].name in (
            "default_source_parallelism",
            "number of subpartitions",
            "number of splits",
            "number of files",
            "max_map_length",
        )
    for clamp in decision.clamps:
        assert (clamp.name if clamp.name != WAVES else "more waves") in decision.reason


@given(regions())
def test_no_subtask_exceeds_the_target_unless_a_subpartition_a_file_or_a_bound_does(
    region: tuple[list[BlockingInput], list[SourceInput], RegionOptions],
) -> None:
    inputs, _, options = region
    decision = decide(region)
    if options.strategy != "balanced" or any(clamp.used < clamp.decided for clamp in decision.clamps):
        return
    rows = [entry.bytes_by_subpartition() for entry in inputs if entry.partitioning is Partitioning.HASH]
    sizes = [sum(column) for column in zip(*rows, strict=True)]
    files = {entry.name: entry.file_bytes for entry in inputs if entry.is_rescale}
    shares = {name: share(sum(of), inputs, options) for name, of in {"": sizes, **files}.items()}
    for subtask in decision.subtasks:
        read = {"": [sizes[index] for index in subtask.subpartitions or ()]}
        read |= {name: [files[name][index] for index in span] for name, span in subtask.files.items()}
        for name, found in read.items():
            assert sum(found) <= shares[name] or len([size for size in found if size]) == 1
    assert sum(shares.values()) <= options.target_bytes + len(shares)  # a share is at least a byte


def share(size: int, inputs: list[BlockingInput], options: RegionOptions) -> int:
    """Of the target, what falls to one of the things that are cut."""
    total = sum(sum(map(sum, entry.bytes_by_partition)) for entry in inputs if not entry.is_broadcast)
    return max(1, options.target_bytes * size // total) if total else 0


@given(regions())
def test_a_decision_is_the_same_again_and_after_json(
    region: tuple[list[BlockingInput], list[SourceInput], RegionOptions],
) -> None:
    decision = decide(region)
    assert decide(region) == decision
    assert RegionDecision.from_json(json.loads(json.dumps(decision.to_json()))) == decision
    assert decision.describe().startswith(f"region: {decision.reason}\n")
