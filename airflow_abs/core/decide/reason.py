"""A decision in words: its reason in one line, and its rules and bounds for those who do not know their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from airflow_abs.core.decide.hot_subpartitions import HotPart
from airflow_abs.core.decide.parallelism import MAX_PARALLELISM, Clamp, divide_up
from airflow_abs.core.decide.region_parallelism import WAVES, RegionParallelism
from airflow_abs.core.wording import format_bytes, format_count


def complete_reason(
    verdict: RegionParallelism,
    sizes: Sequence[int],
    files: Mapping[str, Sequence[int]],
    splits: Mapping[str, Sequence[int]],
    parts: Sequence[HotPart],
    *,
    largest: int,
    target_bytes: int,
) -> str:
    """Add to the rule's own words the result, the bounds that changed it, and what keeps a subtask above the target.

    Args:
        verdict: number, rule and bounds.
        sizes: bytes by subpartition, hot ones as 0.
        files: bytes of the files by rescale input.
        splits: bytes of the splits by source.
        parts: of hot subpartitions.
        largest: bytes of the largest subtask.
        target_bytes: what a subtask should read.
    """
    notes = [_describe_hot(list(of)) for _, of in groupby(parts, key=lambda part: part.subpartition)]
    notes += [_describe_clamp(clamp, largest, target_bytes) for clamp in verdict.clamps]
    fewest = divide_up(sum(sizes) + sum(map(sum, files.values())), target_bytes)
    if verdict.rule == "balanced" and not verdict.clamps and 0 < fewest < verdict.parallelism - len(parts):
        pieces = [name for name, found in (("subpartitions", sizes), ("files", files)) if found]
        notes.append(f"{fewest + len(parts)} would do if {' and '.join(pieces)} could be cut")
    if largest > target_bytes and not any(clamp.used < clamp.decided for clamp in verdict.clamps):
        notes.append(_describe_excess(largest, _atoms(sizes, files, splits, parts), target_bytes))
    return f"{verdict.reason} -> {'; '.join([format_count(verdict.parallelism, 'subtask'), *notes])}"


def say_inferred(reason: str, inputs: Mapping[str, str | None]) -> str:
    """Add how rows reach the region by edges that `plan` inferred; `inputs` as `BlockingInput.inferred`, by name."""
    return "; ".join([reason, *(f"{name} by {how}" for name, how in inputs.items() if how is not None)])


def say_notes(reason: str, sources: Mapping[str, str | None]) -> str:
    """Add what is to be said of sources, by name, to a rule's own words."""
    return "; ".join([reason, *(f"{name}: {note}" for name, note in sources.items() if note is not None)])


def _describe_hot(parts: Sequence[HotPart]) -> str:
    return f"subpartition {parts[0].subpartition} of {parts[0].input} is hot and shared by {len(parts)}"


def _atoms(
    sizes: Sequence[int],
    files: Mapping[str, Sequence[int]],
    splits: Mapping[str, Sequence[int]],
    parts: Sequence[HotPart],
) -> list[tuple[int, str]]:
    """Bytes and name of everything that no two subtasks can share."""
    atoms = [(size, f"subpartition {index}") for index, size in enumerate(sizes)]
    atoms += [(size, f"file {index} of {name}") for name, of in files.items() for index, size in enumerate(of)]
    atoms += [(size, f"split {index} of {name}") for name, of in splits.items() for index, size in enumerate(of)]
    return atoms + [(part.bytes, f"a part of subpartition {part.subpartition}") for part in parts]


def _describe_excess(largest: int, atoms: Sequence[tuple[int, str]], target_bytes: int) -> str:
    """Name the one that is above the target by itself; failing that, the largest subtask."""
    size, atom = max(atoms)
    if size > target_bytes:
        return f"{atom} alone holds {format_bytes(size)}"
    return f"the largest reads {format_bytes(largest)}"


def _describe_clamp(clamp: Clamp, largest_bytes: int, target_bytes: int) -> str:
    if clamp.used > clamp.decided:
        return f"{clamp.name} {clamp.bound} raises {clamp.decided} to {clamp.used}"
    if largest_bytes > target_bytes:
        if clamp.name == WAVES:
            return (
                f"more than {clamp.bound} would only be more waves: the target grows to {format_bytes(largest_bytes)}"
            )
        if clamp.name == MAX_PARALLELISM:
            return f"{clamp.name} {clamp.bound} lets the target grow to {format_bytes(largest_bytes)} per subtask"
        return f"{clamp.name} {clamp.bound} forces {format_bytes(largest_bytes)} per subtask"
    return f"{clamp.name} {clamp.bound} lowers {clamp.decided} to {clamp.used}"


_RULES = {
    "balanced": "as many subtasks as it takes to keep each at the target, cut so that they read about the same amount",
    "power_of_two": "the power of two closest to the target",
    "sources": "as many subtasks as the source's files need at the target",
    "fixed": "the number that the author set",
    "single_subtask": "one subtask, because all rows must stay together",
    "broadcast_only": "every input is read whole, so there is nothing to divide",
    "no_inputs": "nothing to read",
}
_BOUNDS = {
    "min_parallelism": "the minimum that the job allows",
    "max_parallelism": "the maximum that the job allows",
    "max_map_length": "no more tasks can be mapped",
    "default_source_parallelism": "the maximum that the job allows for a source",
    "single_subtask": "all rows must stay together",
    "sources": "one of its sources needs that many",
    "waves of slots": "more would only wait for a slot, and each costs a task",
    "number of subpartitions": "there are no more subpartitions to divide",
    "number of splits": "there are no more pieces of files to divide",
    "number of files": "there are no more files to divide",
}
_SLOTS_PER_WAVE = "slots per wave"


def describe_rule(rule: str) -> str:
    """What a rule does; its own name if it is of another version."""
    return _RULES.get(rule, rule)


def describe_clamp(clamp: Clamp) -> str:
    """``4 instead of 3, so that none of 2 slots is idle in the last wave``."""
    changed = f"{clamp.used} instead of {clamp.decided}"
    if clamp.name == _SLOTS_PER_WAVE:
        return f"{changed}, so that none of {format_count(clamp.bound, 'slot')} is idle in the last wave"
    return f"{changed}: {_BOUNDS.get(clamp.name, clamp.name)} ({clamp.bound})"
