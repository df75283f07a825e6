from __future__ import annotations

import pytest

from airflow_abs.cli.commands.gc import parse_duration
from airflow_abs.cli.main import main


def test_ages_are_a_number_and_a_unit() -> None:
    assert [parse_duration(text) for text in ("90s", "30m", " 12h ", "7d")] == [90.0, 1800.0, 43200.0, 604800.0]


def test_an_age_without_a_unit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gc", "--older-than", "7"]) == 1
    assert capsys.readouterr().err == (
        "airflow-abs: gc: an age of '7'; expected a number and s, m, h or d, for example 7d\n"
    )
