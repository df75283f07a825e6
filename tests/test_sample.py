"""`make test` has a sample of everything: no folder of the package is without a test there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "airflow_abs"
ELSEWHERE = {
    "decorators": "task_groups",
    "plugins/page": "plugins",
    "plugins/page/repair": "plugins",
    "plugins/page/streams": "plugins/streams",
    "testing/corpus": "proof",
    "testing/corpus_bench": "proof",
}
"""Folders that have no folder of tests with the same name: the one that tests them."""
NEEDS = {"spark", "services", "cluster", "places", "slow"}
_MARK = re.compile(r"pytest\.mark\.(\w+)")
_FOLDERS = sorted(
    {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*") if path.suffix in {".py", ".js"}}
)


def is_sampled(test_file: Path) -> bool:
    """Whether `make test` runs a test of it: one that needs neither Spark, services nor seconds, or a `sample`."""
    statements = ast.parse(test_file.read_text()).body
    of_all = marks(*(each for each in statements if isinstance(each, ast.Assign)))
    tests = [each for each in statements if getattr(each, "name", "").lower().startswith("test")]
    return any("sample" in own or not own & NEEDS for own in (of_all | marks(*decorators(test)) for test in tests))


def decorators(test: ast.stmt) -> list[ast.expr]:
    return getattr(test, "decorator_list", [])


def marks(*nodes: ast.AST) -> set[str]:
    """Names such as `spark` of ``pytest.mark.spark``, also of single parameters."""
    return set(_MARK.findall("\n".join(map(ast.unparse, nodes))))


@pytest.mark.parametrize("folder", _FOLDERS)
def test_every_folder_of_the_package_has_a_sample(folder: str) -> None:
    tests = ROOT / "tests" / ELSEWHERE.get(folder, folder)
    assert any(is_sampled(path) for path in tests.rglob("test_*.py")), f"{tests} has no test that `make test` runs"


def test_a_folder_is_tested_elsewhere_only_while_it_has_no_folder_of_its_own() -> None:
    assert set(ELSEWHERE) <= set(_FOLDERS)
    assert [folder for folder in ELSEWHERE if (ROOT / "tests" / folder).exists()] == []


def test_the_makefile_selects_what_this_file_says() -> None:
    (line,) = re.findall(r"^SAMPLE := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert line == "sample or not (spark or services or cluster or places or slow)"
