"""docs/troubleshooting.md quotes messages that the package has, and quotes all that users meet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from airflow_abs.core.settings import TEXT, HostSettings, JobSettings, VertexOptions, settings_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_abs"
HEADINGS = re.findall(r"^### `(.+)`$", (ROOT / "docs" / "troubleshooting.md").read_text(), flags=re.MULTILINE)
VARIABLE = "…"

# What goes wrong only if the package itself (or a caller of its functions) is wrong, or what others wrap.
INTERNAL_TYPES = {"NotParquetError", "ThriftError", "EOFError", "IndexError", "OSError", "AttributeError"}
INTERNAL_MODULES = {
    "exchange/sources/glob_pattern.py",  # told as "source ...: <this>; escape it with a backslash or close it"
    "exchange/paths.py",
    # told as "table ...: where=... cannot be used to choose files: <this>"
    "tables/conditions/condition.py",
    "tables/conditions/literals.py",
    "tables/iceberg/field_ids.py",  # told as "...: its columns cannot be given the field ids of table ...: <this>"
    "spark/proof/explained.py",  # told as "Spark's plan of its transform cannot be read for the proof ... (<this>)"
    "exchange/storage/locations.py",
    # told in the log of `plan`, of an edge that carries rows
    "spark/narrowing/merging.py",
    "spark/narrowing/partial_aggregates.py",
}
# Values are checked by settings before they get to the core; messages of a command, or in a unit test, are read where
# they are typed.
INTERNAL_FOLDERS = ("core/", "cli/", "demo/", "testing/")
FOR_AUTHORS = ("core/graph/job_graph.py", "core/settings.py")
INTERNAL_MESSAGES = (
    "expected an identity that names the run",
    "mode …, expected one of",
    "expected a count of at least 1",
    "expected results of one number of subpartitions",
    "expected at least 1 subpartition and 1 thread",
    "are reserved for the envelope",
    "not an error of a Spark operation",
    "is given twice",
    "none of the vertices",
    "the plan did not take files for it",
    "this task has no Spark session to ask a catalog",
)


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
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            yield from texts_of(node)
        if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute):
            yield from (re.sub(r"%[sdg]|%\.\d+f", VARIABLE, text) for text in texts_of(node.args[0]))


def raised_in(module: Path) -> Iterator[tuple[str, list[str]]]:
    """The errors that a module makes: name of the type, and what the message can read."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error"):
            texts = [text for text in texts_of(node.args[0]) if text.strip(VARIABLE)] if node.args else []
            if texts:
                yield node.func.id, texts


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


SOURCES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
OF_SETTINGS = {
    name: f"{name} is {VARIABLE}; expected {each.kind.expected}"
    for kind in (JobSettings, HostSettings, VertexOptions)
    for name, each in settings_of(kind)
    if each.kind is not TEXT  # which everything is
}
TEXTS = {text for path in SOURCES.values() for text in texts_in(ast.parse(path.read_text()))}
TEXTS |= set(OF_SETTINGS.values())
RAISED = [
    pytest.param(texts, id=f"{name}-{number}")
    for name, path in SOURCES.items()
    if (name not in INTERNAL_MODULES and not name.startswith(INTERNAL_FOLDERS)) or name in FOR_AUTHORS
    for number, (kind, texts) in enumerate(raised_in(path))
    if kind not in INTERNAL_TYPES
    and texts[0] != f"{VARIABLE} is {VARIABLE}; expected {VARIABLE}"  # OF_SETTINGS says it for each
    and not any(is_told(internal, texts[0]) for internal in INTERNAL_MESSAGES)
] + [pytest.param([text], id=name) for name, text in OF_SETTINGS.items()]


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_heading_quotes_a_message_of_the_package(heading: str) -> None:
    assert any(is_told(heading, text) for text in TEXTS), "no such message any more: correct docs/troubleshooting.md"


@pytest.mark.parametrize("texts", RAISED)
def test_a_message_that_users_meet_has_a_heading(texts: list[str]) -> None:
    told = [
        heading for heading in HEADINGS if heading.strip(VARIABLE) and any(is_told(heading, text) for text in texts)
    ]
    assert told, f"add to docs/troubleshooting.md: {texts[0]}"


def test_no_message_is_explained_twice() -> None:
    assert len(set(HEADINGS)) == len(HEADINGS) > 100


def test_every_heading_is_followed_by_an_explanation() -> None:
    blocks = re.split(r"^## ", (ROOT / "docs" / "troubleshooting.md").read_text(), flags=re.MULTILINE)
    bare = [block.splitlines()[0] for block in blocks if re.search(r"^### [^\n]*\n*\Z", block, flags=re.MULTILINE)]
    assert not bare
