"""The name of an installation: set, or drawn once and kept in a Variable."""

from __future__ import annotations

import re

import pytest
from airflow.sdk import Variable

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.hooks.installation import VARIABLE, read_installation


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    kept: dict[str, str] = {}
    monkeypatch.setattr(Variable, "get", lambda key, default=None: kept.get(key, default))
    monkeypatch.setattr(Variable, "set", lambda key, value, description=None: kept.update({key: value}))
    return kept


def test_the_first_plan_draws_a_name_that_all_later_ones_find(variables: dict[str, str]) -> None:
    name = read_installation()
    assert re.fullmatch("[0-9a-f]{12}", name)
    assert variables == {VARIABLE: name}
    assert read_installation() == name


def test_what_is_configured_comes_first_and_no_variable_is_made(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__ADAPTIVE_SPARK__INSTALLATION", "prod-eu")
    assert read_installation() == "prod-eu"
    assert variables == {}


def test_a_name_that_could_be_taken_for_something_else_is_refused(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__ADAPTIVE_SPARK__INSTALLATION", "a:b/c")
    with pytest.raises(InvalidValueError, match=r"installation is 'a:b/c'; expected up to 64 letters, digits, '_'"):
        read_installation()
