"""The package as a graph of imports: everything is reached from an entry point, nothing goes in circles.

Imports are read, not run: those inside of functions count too. What only type checkers see makes no module reachable,
but closes a circle. A module whose name stands in a string, whole or with one of its names
(`airflow_abs.execution.links.AdaptivePlanLink`), is loaded by that name.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from airflow_abs.core.graph.regions import compute_strong_components, group_members

ROOT = Path(__file__).parents[1]
PACKAGE = "airflow_abs"


@cache
def modules() -> dict[str, Path]:
    """Path of every module, by name; packages by the name of their folder."""
    paths = sorted((ROOT / PACKAGE).rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text()) for name, path in modules().items()}


def module_of(name: str) -> str | None:
    """The module that a dotted name stands for, its last part being one of the module's names if need be."""
    return next((known for known in (name, name.rpartition(".")[0]) if known in modules()), None)


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but what only type checkers see."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if is_for_type_checkers(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield from statements(other)
        else:
            yield from statements(child)


def names_imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert not node.level, "imports name modules in full"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


@cache
def imports(*, with_types: bool = False) -> dict[str, frozenset[str]]:
    """Modules that each module imports."""
    found = {}
    for name, tree in trees().items():
        nodes = ast.walk(tree) if with_types else statements(tree)
        targets = {module_of(each) for node in nodes for each in names_imported(node)}
        found[name] = frozenset(target for target in targets if target is not None) - {name}
    return found


@cache
def loads_by_name() -> dict[str, frozenset[str]]:
    """Modules that each module names in a string."""
    found = {}
    for name, tree in trees().items():
        texts = {
            node.value for node in statements(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        found[name] = named_in(text for text in texts if re.fullmatch(r"[\w.]+", text)) - {name}
    return found


def named_in(texts: Iterable[str]) -> frozenset[str]:
    names = {name for text in texts for name in re.findall(rf"\b{PACKAGE}(?:\.\w+)+", text)}
    return frozenset(module for module in map(module_of, names) if module is not None)


def entry_points() -> set[str]:
    """What is called from outside: pip's scripts and Airflow's discovery, imports of users, `python -m` of services."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["scripts"], *project["entry-points"].values()]
    scripts = [target.partition(":")[0] for group in groups for target in group.values()]
    services = [ROOT / "docker-compose.yaml", *sorted(path for path in (ROOT / "docker").rglob("*") if path.is_file())]
    return {
        PACKAGE,
        f"{PACKAGE}.preload",
        f"{PACKAGE}.testing",
        *scripts,
        *named_in(path.read_text() for path in services),
    }


def reached_from(starts: Iterable[str]) -> set[str]:
    reached: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += imports()[name] | loads_by_name()[name]
            if "." in name:
                waiting.append(name.rpartition(".")[0])  # importing a module imports its package
    return reached


def test_every_module_is_reached_from_an_entry_point() -> None:
    assert set(modules()) - reached_from(entry_points()) == set()


def test_no_imports_go_in_circles() -> None:
    imported = imports(with_types=True)
    names = sorted(imported)
    number = {name: index for index, name in enumerate(names)}
    groups = group_members(compute_strong_components([[number[target] for target in imported[name]] for name in names]))
    circles = {frozenset(names[index] for index in group) for group in groups if len(group) > 1}
    assert circles == set()


def test_reading_imports_sees_those_in_functions_and_not_those_for_type_checkers() -> None:
    source = """
import airflow_abs.settings
if TYPE_CHECKING:
    from airflow_abs.hooks.storage import x
else:
    from airflow_abs.core.errors import y
def f():
    from airflow_abs.core import wording
"""
    names = [name for node in statements(ast.parse(source)) for name in names_imported(node)]
    found = {module_of(name) for name in names}
    assert found == {f"{PACKAGE}.settings", f"{PACKAGE}.core.errors", f"{PACKAGE}.core.wording"}
