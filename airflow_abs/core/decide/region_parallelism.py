"""How many subtasks a region gets: which rule applies, what it says, which bounds change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from airflow_abs.core.decide.file_ranges import count_filled
from airflow_abs.core.decide.parallelism import (
    MAX_MAP_LENGTH,
    Clamp,
    apply_bound,
    divide_up,
    power_of_two_from,
    round_to_power_of_two,
)
from airflow_abs.core.decide.ranges import count_ranges_within
from airflow_abs.core.decide.region_inputs import (
    MOST_BYTES,
    NamedBound,
    RegionInputs,
    RegionOptions,
    SourceInput,
    list_bounds,
)
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.wording import format_bytes, format_count

_FEW_WAVES = 3
WAVES = "waves of slots"
_IN_ONE_WAVE = 2
"""Times the target that a subtask may read if that saves the second wave: its tasks, and their wait for a slot."""


@dataclass(frozen=True, slots=True)
class RegionParallelism:
    """The number, the rule that gave it, why, and the bounds that changed it."""

    rule: str
    parallelism: int
    reason: str
    clamps: tuple[Clamp, ...] = ()


def decide_region_parallelism(
    inputs: RegionInputs,
    bytes_by_subpartition: Sequence[int],
    options: RegionOptions,
    hot_parts: int = 0,
    hot_bytes: int = 0,
) -> RegionParallelism:
    """Choose the number of subtasks.

    In this order: a region that cannot be spread is one subtask; a parallelism set by the user is kept, up to
    `max_map_length`; otherwise the
    strategy decides from partitioned and rescale inputs and from sources, whose own answer is a minimum if there are
    such inputs. Subpartitions, or files and splits if there are none, are never fewer than the subtasks that share
    them.

    `bytes_by_subpartition` are those to be cut into ranges: without the `hot_bytes` of the hot subpartitions that
    `hot_parts` subtasks read (only with the `balanced` strategy). The number counts those subtasks too.
    """
    if options.single_subtask_reason is not None:
        return _single_subtask(options)
    if options.parallelism is not None:
        return _set_by_user(inputs.region, options.parallelism, len(bytes_by_subpartition), options.max_map_length)
    if options.strategy == "power_of_two":
        return _power_of_two(inputs, bytes_by_subpartition, options)
    return _balanced(inputs, bytes_by_subpartition, options, hot_parts, hot_bytes)


def _single_subtask(options: RegionOptions) -> RegionParallelism:
    clamps: list[Clamp] = []
    if options.parallelism is not None:
        apply_bound("single_subtask", options.parallelism, 1, clamps, lower=False)
    return RegionParallelism("single_subtask", 1, str(options.single_subtask_reason), tuple(clamps))


def _set_by_user(region: str, parallelism: int, subpartitions: int, limit: int | None) -> RegionParallelism:
    if subpartitions and parallelism > subpartitions:
        raise InvalidValueError(
            f"region {region!r}: parallelism {parallelism} is set, but its inputs have {subpartitions} subpartitions; "
            f"expected at most {subpartitions}: lower parallelism or raise max_parallelism"
        )
    clamps: list[Clamp] = []
    used = parallelism if limit is None else apply_bound(MAX_MAP_LENGTH, parallelism, limit, clamps, lower=False)
    return RegionParallelism("fixed", used, f"parallelism {parallelism} set by the user", tuple(clamps))


def _balanced(
    inputs: RegionInputs, sizes: Sequence[int], options: RegionOptions, hot_parts: int, hot_bytes: int
) -> RegionParallelism:
    clamps: list[Clamp] = []
    # Nothing to read is one subtask, not a bound at work.
    target_bytes = inputs.own_target(options)
    decided = max(1, _fewest_within_target(inputs, sizes, target_bytes) + hot_parts)
    if inputs.sources:
        answers = [_asked_by_source(source, options, target_bytes) for source in inputs.sources]
        asked, asked_clamps = max(answers, key=itemgetter(0))
        clamps += asked_clamps
        decided = apply_bound("sources", decided, asked, clamps, lower=True) if inputs.is_divided else asked
    inferred = inputs.inferred
    if options.most_waves is not None and options.slots is not None:
        least = max(inferred or 1, hot_parts + _fewest_of_most_bytes(inputs, sizes))
        waves = 1 if decided <= _IN_ONE_WAVE * options.slots else options.most_waves
        enough = max(waves * options.slots, least)
        decided = apply_bound(WAVES, decided, enough, clamps, lower=False)
    bounds = list_bounds(inputs, options, len(sizes), hot_parts)
    decided = _apply_bounds(decided, bounds, clamps)
    if options.slots is not None and (inferred is None or inputs.is_divided):  # else the source knows best
        # Beyond this number, or an upper bound, some subtasks would read nothing at all.
        with_bytes = [count_filled(sizes) + hot_parts] if sizes else []
        most = min([*with_bytes, *(bound.subtasks for bound in bounds if not bound.lower)])
        decided = _fill_slots(decided, options.slots, most, clamps)
    reason = _volume_reason(inputs, sum(sizes) + hot_bytes, options)
    return RegionParallelism(_rule(inputs), decided, reason, tuple(clamps))


def _apply_bounds(decided: int, bounds: Sequence[NamedBound], clamps: list[Clamp]) -> int:
    for name, subtasks, lower in bounds:
        decided = apply_bound(name, decided, subtasks, clamps, lower=lower)
    return decided


def _fewest_within_target(inputs: RegionInputs, sizes: Sequence[int], target_bytes: int) -> int:
    """What is cut separately (subpartitions; the files of each rescale input) gets its share of the target, by bytes.

    The number is the most that any of them needs: then a subtask keeps the target over all that it reads.
    """
    cut = [found for found in (sizes, *inputs.files.values()) if any(found)]
    total = sum(map(sum, cut))
    return max((count_ranges_within(each, max(1, target_bytes * sum(each) // total)) for each in cut), default=0)


def _fewest_of_most_bytes(inputs: RegionInputs, sizes: Sequence[int]) -> int:
    """Subtasks below which one would read more than a try of it should cost again."""
    splits = sum(source.bytes for source in inputs.sources)
    return max(1, _fewest_within_target(inputs, sizes, MOST_BYTES), divide_up(splits, MOST_BYTES))


def _rule(inputs: RegionInputs) -> str:
    if inputs.partitioned or inputs.files:
        return "balanced"
    if inputs.sources:
        return "sources"
    return "broadcast_only" if inputs.blocking else "no_inputs"


def _fill_slots(decided: int, slots: int, most: int, clamps: list[Clamp]) -> int:
    """With few waves, a number that fills the last one: smaller subtasks, and no slot stands idle.

    In a single wave subtasks are not made smaller (each costs an Airflow task), and from the fourth on a last wave that
    is not full costs little.
    """
    waves = divide_up(decided, slots)
    filled = waves * slots
    if filled == decided or filled > most or not 1 < waves <= _FEW_WAVES:
        return decided
    clamps.append(Clamp("slots per wave", decided, slots, filled))
    return filled


def _asked_by_source(source: SourceInput, options: RegionOptions, target_bytes: int) -> tuple[int, list[Clamp]]:
    """Subtasks that one source asks for, and what bounded them: those that it has inferred itself (FLIP-379), else
    those that its bytes need. One of unknown size asks for as many as a source may have."""
    clamps: list[Clamp] = []
    asked = source.parallelism or max(1, divide_up(source.bytes, target_bytes))
    if source.parallelism is None and source.size_from == "default":
        asked = options.source_bound
    if source.parallelism is None and options.default_source_parallelism is not None:
        bound = options.default_source_parallelism
        asked = apply_bound("default_source_parallelism", asked, bound, clamps, lower=False)
    asked = apply_bound("number of splits", asked, max(1, len(source.split_bytes)), clamps, lower=False)
    return asked, clamps


def _power_of_two(inputs: RegionInputs, sizes: Sequence[int], options: RegionOptions) -> RegionParallelism:
    """The 1.15 rule, for files of producers as for subpartitions; what a source asks for is a minimum beside them.
    Every number that cuts ranges is a power of two, so that all ranges are of the same length."""
    clamps: list[Clamp] = []
    target_bytes, reason = inputs.own_target(options), _volume_reason(inputs, sum(sizes), options)
    asked = {source.name: _asked_by_rule(source, options, target_bytes) for source in inputs.sources}
    if inputs.is_divided:
        initial = divide_up(sum(sizes) + sum(map(sum, inputs.files.values())), target_bytes)
        reason += f" is {initial}"
        least = max((min(asked[each.name], len(each.split_bytes)) for each in inputs.sources), default=0)
        decided = max(1, round_to_power_of_two(initial))
        decided = apply_bound("sources", decided, power_of_two_from(least), clamps, lower=True)
    else:
        decided = max(asked.values(), default=1)
        if asked and inputs.inferred is None and options.default_source_parallelism is not None:
            reason += f", default_source_parallelism {options.default_source_parallelism}"
    decided = _apply_bounds(decided, list_bounds(inputs, options, len(sizes)), clamps)
    return RegionParallelism("power_of_two", decided, reason, tuple(clamps))


def _asked_by_rule(source: SourceInput, options: RegionOptions, target_bytes: int) -> int:
    """Of 1.15: a default is the number of a source, whatever it holds; else its bytes ask as those of inputs."""
    if source.parallelism is not None:
        return source.parallelism
    if options.default_source_parallelism is not None or source.size_from == "default":
        return options.source_bound
    return max(1, round_to_power_of_two(divide_up(source.bytes, target_bytes)))


def _volume_reason(inputs: RegionInputs, partitioned_bytes: int, options: RegionOptions) -> str:
    splits = sum(len(source.split_bytes) for source in inputs.sources if source.size_from != "default")
    unknown = sum(len(source.split_bytes) for source in inputs.sources if source.size_from == "default")
    split_bytes = sum(source.bytes for source in inputs.sources)
    files = list(chain.from_iterable(inputs.files.values()))
    if not inputs.partitioned and not files and not splits and inputs.broadcast_bytes:
        return f"only broadcast inputs ({format_bytes(inputs.broadcast_bytes)}, read whole by every subtask)"
    pruned = "".join(
        f" ({read} of {format_count(known, 'partition')} read)" for read, known in _partitions_read(inputs)
    )
    if not partitioned_bytes and not sum(files) and not split_bytes and not unknown:
        return f"no input bytes{pruned}"
    parts = [format_bytes(partitioned_bytes)] if partitioned_bytes else []
    if sum(files):
        parts.append(f"{format_bytes(sum(files))} in {format_count(count_filled(files), 'file')}")
    if split_bytes:
        parts.append(f"{format_bytes(split_bytes)} in {format_count(splits, 'split')}{pruned}")
    if unknown:
        parts.append(f"{format_count(unknown, 'split')} of unknown size")
    target_bytes = inputs.own_target(options)
    aside = options.target_bytes - target_bytes
    set_aside = f" ({format_bytes(aside)} set aside for broadcast inputs)" if aside else ""
    return f"{' and '.join(parts)} at a target of {format_bytes(target_bytes)}{set_aside}"


def _partitions_read(inputs: RegionInputs) -> list[tuple[int, int]]:
    return [source.partitions_read for source in inputs.sources if source.partitions_read]
