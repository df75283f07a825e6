"""Every message that docs/troubleshooting.md quotes is one that the package can give."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_abs"
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
HEADINGS = re.findall(r"^### `(.+)`$", PAGE, flags=re.MULTILINE)
LINES = [
    line for row in re.findall(r"^\| (`.+`) \|", PAGE, flags=re.MULTILINE) for line in re.findall("`([^`]+)`", row)
]
VARIABLE = "…"


def texts_of(node: ast.expr) -> list[str]:
    """What an expression can read, with `…` for everything that is not fixed."""
    match node:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.JoinedStr(values=values):
            return ["".join(parts) for parts in product(*map(texts_of, values))]
        case ast.FormattedValue(value=ast.IfExp(body=body, orelse=other)):
            return [*texts_of(body), *texts_of(other)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [one + other for one, other in product(texts_of(left), texts_of(right))]
        case _:
            return [VARIABLE]


def texts_in(tree: ast.AST) -> Iterator[str]:
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in set(ast.walk(tree)) - docstrings:
        if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            yield from texts_of(node)
        if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute):
            yield from (re.sub(r"%[sdg]|%\.\d+f", VARIABLE, text) for text in texts_of(node.args[0]))


@cache
def in_order(heading: str) -> re.Pattern[str]:
    """The heading's fixed words, with something variable between them."""
    return re.compile("[^\n]*?".join(map(re.escape, heading.split(VARIABLE))))


def is_told(heading: str, text: str) -> bool:
    """Whether the text has the heading's fixed words in their order. The longest one tells most texts apart."""
    return longest(heading) in text and in_order(heading).search(text) is not None


@cache
def longest(heading: str) -> str:
    return max(heading.split(VARIABLE), key=len)


TEXTS = {text for path in PACKAGE.rglob("*.py") for text in texts_in(ast.parse(path.read_text()))}


@pytest.mark.parametrize("heading", HEADINGS + LINES)
def test_a_heading_quotes_a_message_of_the_package(heading: str) -> None:
    assert any(is_told(heading, text) for text in TEXTS), "no such message any more: correct docs/troubleshooting.md"


def test_no_message_is_explained_twice() -> None:
    assert len(set(HEADINGS)) == len(HEADINGS) > 15


def test_every_heading_is_followed_by_an_explanation() -> None:
    blocks = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    bare = [block.splitlines()[0] for block in blocks if re.search(r"^### [^\n]*\n*\Z", block, flags=re.MULTILINE)]
    assert not bare
