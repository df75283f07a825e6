from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.spark.planning import check_exchange, read_slots

pytestmark = pytest.mark.spark


def folder(root: Any) -> JobFolder:
    return JobFolder(root, "dag", "run", "job")


def test_an_exchange_that_both_sides_reach_is_left_as_it_was(session: Any, tmp_path: Path) -> None:
    check_exchange(session, folder(tmp_path))
    assert list(folder(tmp_path).path.iterdir()) == []


def test_an_exchange_that_airflow_cannot_write_is_named(session: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExchangeUnreachableError, match=r"Airflow cannot write a file there .*check the path"):
        check_exchange(session, folder(tmp_path / "file"))


def test_an_exchange_that_spark_cannot_write_is_named(session: Any) -> None:
    with pytest.raises(ExchangeUnreachableError) as caught:
        check_exchange(session, folder(UPath("memory://exchange")))
    said = str(caught.value)
    assert said.startswith("the Spark server cannot write to the exchange at memory://exchange/dag/run/job: ")
    assert said.endswith("expected a path that Airflow and Spark both reach and may write to")


def test_the_slots_of_a_local_server_are_its_cores(session: Any) -> None:
    assert read_slots(session) == 2
