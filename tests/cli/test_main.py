from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_abs.cli.main import main


def test_help_shows_the_commands_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capsys.readouterr().out
    for words in ("demo", "generate", "server", "examples:", "airflow-abs demo --keep"):
        assert words in shown


def test_help_loads_nothing_heavy() -> None:
    script = """
import sys
from airflow_abs.cli import main
main._parser().format_help()
print([name for name in ("airflow", "pyspark", "grpc", "pyarrow", "duckdb", "rich", "httpx") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


@pytest.mark.slow
def test_generate_makes_the_data_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["generate", "--out", str(tmp_path), "--dates", "2026-01-01, 2026-01-02", "--scale", "0.01"]
    assert main(command) == 0
    assert "orders/ds=2026-01-02: 3,796 rows" in capsys.readouterr().out
    assert main(command) == 0
    assert "0 made, 3 there already" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--dag", "weekly"], "demo: no example DAG is called weekly; there are daily_revenue, "),
        (["demo", "--dags-folder", "/nowhere"], "demo: /nowhere is not a folder; expected the example DAGs"),
        (["demo", "--scale", "-1"], "generate: scale is -1, expected a number above 0"),
        (
            ["generate", "--out", "x", "--dates", "2026-01-01", "--hot-day", "2026-02-01"],
            "the hot day 2026-02-01 is not",
        ),
    ],
)
def test_wrong_arguments_are_told_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    told = capsys.readouterr().err
    assert told.startswith("airflow-abs: ")
    assert message in told
    assert told.count("\n") == 1


def test_a_date_that_is_none_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["demo", "--dates", "tomorrow"])
    assert "expected days with commas, for example 2026-01-01,2026-01-02" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_ends_a_command_quietly(tmp_path: Path) -> None:
    script = f"""
import argparse, sys
from airflow_abs.cli.main import run_command
parser = argparse.ArgumentParser("airflow-abs")
parser.set_defaults(run=lambda _: print("a line\\n" * {100_000}) or 0)
sys.exit(run_command(parser, []))
"""
    (tmp_path / "long.py").write_text(script)
    command = f"set -o pipefail; {sys.executable} {tmp_path}/long.py | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("a line\n", "")
