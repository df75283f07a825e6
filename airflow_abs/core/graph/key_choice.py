"""By which columns the inputs of a step could be hashed, given what its operators need to have together.

These are proposals, cheapest first; whether one is right is for the proof to say (`airflow_abs.spark.proof`). Columns
that a join compares, or that a union puts at one place, are one *class*: hashed by columns of one class, inputs agree.
A need is served by any classes among its own, so all needs are served by what they have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, product

Keys = tuple[str, ...]

_MOST_CHOICES = 8
"""Of columns, where an input has several that hold the same values."""


@dataclass(frozen=True, slots=True, order=True)
class InputColumn:
    """A column of one of the step's inputs."""

    input: str
    column: str


@dataclass(frozen=True, slots=True)
class KeyNeed:
    """Rows that are equal in all `values` must be in one subtask; each is the set of input columns that hold it."""

    values: tuple[frozenset[InputColumn], ...]


def propose_keys(needs: Sequence[KeyNeed], fixed: Mapping[str, Keys], most: int) -> list[dict[str, Keys]]:
    """Hash keys by input, at most `most` proposals, the likeliest first.

    First all classes that the needs have in common (rows are spread best by many columns), then each of them alone;
    where they have none in common, those of each need, in order, although the others are not served.

    Args:
        needs: in the order in which the step has them.
        fixed: keys of inputs that are hashed already, whose order and number the others must follow.
        most: no more than these.
    """
    classes = _Classes(needs)
    of_groups = [_assignments(classes, group, fixed) for group in classes.groups()]
    numbers = {len(keys) for keys in fixed.values()} or dict.fromkeys(chain.from_iterable(of_groups))
    merged = (
        {name: keys for part in parts for name, keys in part.items() if name not in fixed}
        for number in numbers
        for parts in product(*(group.get(number, []) for group in of_groups))
    )
    unique = {tuple(sorted(each.items())): each for each in islice(merged, 4 * most) if each}
    return list(unique.values())[:most] if len({len(keys) for keys in fixed.values()}) < 2 else []


def _assignments(
    classes: _Classes, group: Sequence[Sequence[InputColumn]], fixed: Mapping[str, Keys]
) -> dict[int, list[dict[str, Keys]]]:
    """Keys of the inputs of some needs, by the number of keys: it must be one for all inputs of a step."""
    found: dict[int, list[dict[str, Keys]]] = {}
    for option in _options(classes, group, fixed):
        found.setdefault(len(option), []).extend(classes.assign(option, group))
    return found


class _Classes:
    """Which columns hold the same values; a class is called by its least column."""

    def __init__(self, needs: Sequence[KeyNeed]) -> None:
        self._parent: dict[InputColumn, InputColumn] = {}
        for need in needs:
            for value in need.values:
                self._unite(sorted(value))
        self.needs = [list(dict.fromkeys(self.root(min(value)) for value in need.values if value)) for need in needs]
        self.needs = [need for need in self.needs if need]

    def root(self, column: InputColumn) -> InputColumn:
        while self._parent.setdefault(column, column) != column:
            column = self._parent[column]
        return column

    def columns(self, of: InputColumn) -> dict[str, list[str]]:
        """The columns of a class by input."""
        found: dict[str, list[str]] = {}
        for column in sorted(self._parent):
            if self.root(column) == of:
                found.setdefault(column.input, []).append(column.column)
        return found

    def groups(self) -> list[list[list[InputColumn]]]:
        """Needs that have inputs in common, transitively: those inputs must agree on keys."""
        groups: list[tuple[set[str], list[list[InputColumn]]]] = []
        for need in self.needs:
            inputs = {name for each in need for name in self.columns(each)}
            needs = [need]
            rest = []
            for others, theirs in groups:
                if others & inputs:
                    inputs, needs = inputs | others, [*theirs, *needs]
                else:
                    rest.append((others, theirs))
            groups = [*rest, (inputs, needs)]
        return [needs for _, needs in groups]

    def assign(self, option: Sequence[InputColumn], group: Iterable[Sequence[InputColumn]]) -> list[dict[str, Keys]]:
        """Keys of all inputs that have a column of each class; where one has several, every choice of it."""
        by_class = [self.columns(each) for each in option]
        inputs = sorted({name for need in group for each in need for name in self.columns(each)})
        choices = {
            name: list(islice(product(*(columns[name] for columns in by_class)), _MOST_CHOICES))
            for name in inputs
            if all(name in columns for columns in by_class)
        }
        return [dict(zip(choices, chosen, strict=True)) for chosen in islice(product(*choices.values()), _MOST_CHOICES)]

    def _unite(self, columns: Sequence[InputColumn]) -> None:
        for one, other in pairwise(columns):
            first, second = sorted((self.root(one), self.root(other)))
            self._parent[second] = first
        if len(columns) == 1:
            self.root(columns[0])


def _options(
    classes: _Classes, group: Sequence[Sequence[InputColumn]], fixed: Mapping[str, Keys]
) -> list[tuple[InputColumn, ...]]:
    """Lists of classes by which the inputs of some needs could all be hashed."""
    inputs = {name for need in group for each in need for name in classes.columns(each)}
    known = {column: each for need in group for each in need for column in _columns_of(classes, each)}
    given = [
        tuple(known[InputColumn(name, key)] for key in keys)
        for name, keys in sorted(fixed.items())
        if name in inputs and all(InputColumn(name, key) in known for key in keys)
    ]
    if given:
        return list(dict.fromkeys(given))
    common = [each for each in group[0] if all(each in need for need in group)]
    # What some input has no column of cannot bring its rows to the others'.
    shared = [each for each in common if set(classes.columns(each)) == inputs]
    options = [tuple(shared), tuple(common), *((each,) for each in common), *map(tuple, group)]
    return [option for option in dict.fromkeys(options) if option]


def _columns_of(classes: _Classes, each: InputColumn) -> list[InputColumn]:
    return [InputColumn(name, column) for name, columns in classes.columns(each).items() for column in columns]
