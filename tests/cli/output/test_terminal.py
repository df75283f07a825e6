from __future__ import annotations

import re

import pytest

from airflow_abs.cli.output.terminal import Terminal


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [re.sub(r"^ *\d+\.\ds", "<s>", line) for line in capsys.readouterr().out.splitlines()]


def test_in_a_pipe_progress_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal(quiet_seconds=0) as terminal:
        terminal.step("data made")
        terminal.doing("1/3 tasks")
        terminal.doing("1/3 tasks")
        terminal.doing("2/3 tasks")
        terminal.show("[done] " + "x" * 200)
    assert shown(capsys) == ["<s>  data made", "<s>  ... 1/3 tasks", "<s>  ... 2/3 tasks", "[done] " + "x" * 200]


def test_in_a_pipe_progress_comes_at_most_once_in_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal(quiet_seconds=3600) as terminal:
        terminal.doing("1/3 tasks")
        terminal.doing("2/3 tasks")
        terminal.step("run ended")
    assert shown(capsys) == ["<s>  ... 1/3 tasks", "<s>  run ended"]
