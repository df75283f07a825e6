from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from upath import UPath

from airflow_abs.cli.commands.exchange_root import VARIABLE, find_exchange, open_exchange, open_uri


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An Airflow home without a configuration; nothing is set in the environment."""
    for name in (VARIABLE, "AIRFLOW_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    return tmp_path


def test_what_is_given_wins_over_the_environment_and_that_over_the_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_exchange(None) is None
    (home / "airflow.cfg").write_text(
        "[core]\nx = %(y)s\n[adaptive_spark]\nexchange = file://$AIRFLOW_HOME/from-file\n"
    )
    assert open_exchange(None) == home / "from-file"
    monkeypatch.setenv(VARIABLE, "/from/environment")
    assert open_exchange(None) == Path("/from/environment")
    assert open_exchange("/given") == Path("/given")


def test_another_file_can_be_named_and_one_that_is_none_is_no_exchange(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / "other.cfg"
    monkeypatch.setenv("AIRFLOW_CONFIG", str(file))
    file.write_text("[adaptive_spark]\nexchange = /elsewhere\n")
    assert open_exchange(None) == Path("/elsewhere")
    file.write_text("neither = section")
    with pytest.raises(ValueError, match=r"no exchange is given; .* or \[adaptive_spark\] exchange in .*other\.cfg"):
        open_exchange(None)


def test_a_uri_without_a_connection_is_opened_without_airflow() -> None:
    assert open_uri("memory://bucket/exchange") == UPath("memory://bucket/exchange")
    assert open_uri("file://fs_default@/exchange") == open_uri("file:///exchange") == Path("/exchange")
    script = (
        "import sys; from airflow_abs.cli.commands.exchange_root import open_uri; "
        "open_uri('memory://bucket/exchange'); "
        "print('airflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"False\n"


@pytest.mark.slow
def test_a_uri_that_names_a_connection_is_opened_as_tasks_open_it() -> None:
    """In a process of its own: it imports Airflow. Here without the provider that would open it."""
    script = "from airflow_abs.cli.commands.exchange_root import open_uri\nopen_uri('gs://nobody@bucket/exchange')"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False)
    assert "exchange gs://nobody@bucket/exchange: cannot be opened here (" in done.stderr
    assert "it names the Airflow connection 'nobody': run this where Airflow has it" in done.stderr
