"""What Airflow's provider discovery reads."""

from __future__ import annotations

import ast
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_abs.get_provider_info import get_provider_info

PACKAGE = Path(__file__).parents[1] / "airflow_abs"
INFO = get_provider_info()
BASES = {
    "operators": {"BaseOperator", "JobTask", "OrderedVertex"},
    "triggers": {"BaseTrigger", "BaseEventTrigger"},
    "hooks": {"BaseHook", "SparkConnectHook"},
}


def test_airflow_accepts_it() -> None:
    jsonschema.validate(INFO, json.loads((files("airflow") / "provider_info.schema.json").read_text()))


def bases_in(path: Path) -> set[str]:
    classes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]
    return {base.id for node in classes for base in node.bases if isinstance(base, ast.Name)}


@pytest.mark.parametrize("kind", sorted(BASES))
def test_every_module_with_such_a_class_is_listed(kind: str) -> None:
    (entry,) = INFO[kind]
    found = {
        "airflow_abs." + path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
        for path in (PACKAGE / kind).rglob("*.py")
        if bases_in(path) & BASES[kind]
    }
    only_bases = {"airflow_abs.operators.job_task"}
    assert set(entry["python-modules"]) == found - only_bases


def names_of_classes(value: Any) -> list[str]:
    return [each["class-name"] for each in value["task-decorators"]] + list(value["extra-links"])


@pytest.mark.parametrize("name", names_of_classes(INFO))
def test_every_name_that_it_gives_is_there(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    path = PACKAGE.parent / (module.replace(".", "/") + ".py")
    assert attribute in {
        node.name for node in ast.parse(path.read_text()).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    }
