"""Reads what Spark answers to `explain("formatted")`: trees of operators, and the details of each by its number.

In this mode the trees hold names and numbers only, so no literal of the author's can stand in one. Details do hold
literals, with line breaks and all. A literal that looks like part of such an answer makes a number appear twice, and
that is an error here: what cannot be read for certain proves nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

_TREE_LINE = re.compile(r"([ :+|-]*)(?:\* )?(\S.*?) \((\d+)\)")
_DETAIL = re.compile(r"\((\d+)\) (\S.*?)(?: \[codegen id : \d+\])?")
_FIELD = re.compile(r"([A-Z][A-Za-z ]*?)(?: \[\d+\])? ?: (.*)", re.DOTALL)
_SUBQUERIES = "===== Subqueries ====="
_SUBQUERY = re.compile(r"Subquery:\d+ Hosting operator id = \d+ Hosting Expression = ")


class UnreadablePlanError(ValueError):
    """Spark's answer is not what this release of Spark writes, or a literal in it looks like a part of it."""


@dataclass(slots=True)
class Operator:
    """One physical operator: its name as Spark shows it, and its details by heading (``Arguments``, ``Keys``)."""

    number: int
    name: str
    children: list[Operator] = field(default_factory=list)
    details: dict[str, str] = field(default_factory=dict)

    def detail(self, heading: str) -> str:
        """The text under a heading; empty if Spark wrote none."""
        return self.details.get(heading, "")


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """The plan itself, and the plans of the subqueries in its expressions."""

    root: Operator
    subqueries: tuple[Operator, ...]

    def operators(self) -> list[Operator]:
        """All operators, subqueries included."""
        waiting, found = [self.root, *self.subqueries], []
        while waiting:
            operator = waiting.pop()
            found.append(operator)
            waiting.extend(operator.children)
        return found


def read_plan(text: str) -> PhysicalPlan:
    """The trees of a formatted explanation, with details.

    Raises:
        UnreadablePlanError: see there.
    """
    lines = text.splitlines()
    if not lines or lines[0] != "== Physical Plan ==":
        raise UnreadablePlanError(f"expected '== Physical Plan ==', found {repr(lines[0]) if lines else 'nothing'}")
    trees = [_read_tree(lines[1:])]
    if _SUBQUERIES in lines:
        begin = lines.index(_SUBQUERIES)
        starts = [number for number in range(begin, len(lines)) if _SUBQUERY.match(lines[number])]
        trees += [_read_tree(_from_tree(lines[start + 1 :])) for start in starts]
    numbered: dict[int, Operator] = {}
    for tree in trees:
        for operator in PhysicalPlan(tree, ()).operators():
            if numbered.setdefault(operator.number, operator) is not operator:
                raise UnreadablePlanError(f"operator ({operator.number}) appears twice")
    _read_details(lines, numbered)
    return PhysicalPlan(trees[0], tuple(trees[1:]))


def split_list(text: str) -> list[str]:
    """The entries of ``[a, f(b, c), d]`` or ``a, f(b, c), d``: cut at the commas outside of parentheses."""
    text = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    entries, depth, begin = [], 0, 0
    for position, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            entries.append(text[begin:position].strip())
            begin = position + 1
    last = text[begin:].strip()
    return [*entries, last] if last or entries else []


def _from_tree(lines: list[str]) -> list[str]:
    """Without what a hosting expression with line breaks left in front of the tree."""
    for number, line in enumerate(lines):
        match = _TREE_LINE.fullmatch(line)
        if match and not match[1]:
            return lines[number:]
    raise UnreadablePlanError("a subquery without a tree")


def _read_tree(lines: list[str]) -> Operator:
    """The tree that starts at the first line and ends at the first empty one."""
    stack: list[tuple[int, Operator]] = []
    root: Operator | None = None
    for line in lines:
        if not line:
            break
        match = _TREE_LINE.fullmatch(line)
        if match is None:
            raise UnreadablePlanError(f"not an operator: {line!r}")
        depth, operator = len(match[1]), Operator(int(match[3]), match[2])
        while stack and stack[-1][0] >= depth:
            stack.pop()
        if stack:
            stack[-1][1].children.append(operator)
        elif root is not None:
            raise UnreadablePlanError(f"a second root: {line!r}")
        root = root or operator
        stack.append((depth, operator))
    if root is None:
        raise UnreadablePlanError("an empty tree")
    return root


def _read_details(lines: list[str], numbered: dict[int, Operator]) -> None:
    """Give every operator its details; each block starts after an empty line with number and name."""
    headers = [
        (position, match)
        for position, line in enumerate(lines)
        if (match := _DETAIL.fullmatch(line)) and (not position or not lines[position - 1])
    ]
    twice = [number for number, times in Counter(match[1] for _, match in headers).items() if times > 1]
    if twice:
        raise UnreadablePlanError(f"the details of operator ({twice[0]}) appear twice; a literal may look like them")
    for position, match in headers:
        operator = numbered.get(int(match[1]))
        if operator is None:
            raise UnreadablePlanError(f"details of an operator ({match[1]}) that is in no tree")
        heading = ""
        for line in lines[position + 1 :]:
            if not line:
                break
            found = _FIELD.fullmatch(line)
            if found and found[1] not in operator.details:
                heading = found[1]
                operator.details[heading] = found[2]
            elif heading:
                operator.details[heading] += "\n" + line
