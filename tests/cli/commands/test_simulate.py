"""`airflow-abs simulate`: a recorded run with more bytes or other settings, and what that rests on."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.cli.main import main
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.paths import JobFolder
from tests.recorded_runs import OPTIONS, MadeRegion, RecordedRun, revenue_run

Golden = Callable[[str, str], None]
MIB = 2**20
PAGE = (Path(__file__).parents[3] / "docs" / "evidence" / "benchmarks.md").read_text()


def large_run(root: Path) -> RecordedRun:
    """A day of 12 GiB: 96 files of orders, customers that are broadcast, a join, an aggregate with a sink."""
    regions = [
        MadeRegion("orders", files=(128 * MIB,) * 96),
        MadeRegion("customers", files=(64 * MIB,)),
        MadeRegion("enriched", inputs={"orders": Partitioning.HASH, "customers": Partitioning.BROADCAST}),
        MadeRegion("by_region", inputs={"enriched": Partitioning.HASH}, sink="/mart/revenue"),
    ]
    written = {"orders": 96 * MIB // 64, "customers": 48 * MIB, "enriched": 40 * MIB // 64, "by_region": 5 * MIB}
    seconds = {"orders": 40.0, "customers": 12.0, "enriched": 34.0, "by_region": 14.0}
    run = RecordedRun(
        JobFolder(root, "daily_revenue", "2026-01-03", "revenue"),
        regions,
        lambda region, index, subpartition: written[region] + 1000 * subpartition,
        replace(OPTIONS, target_bytes=128 * MIB, max_parallelism=64, slots=16),
        slots=16,
        seconds=lambda region, index: seconds[region] + index % 7 / 10,
        waited=lambda index: 2.5 + 0.27 * index,
    )
    run.write_plan()
    run.run()
    return run


def test_the_recorded_day_again(tmp_path: Path, capsys: pytest.CaptureFixture[str], assert_golden: Golden) -> None:
    revenue_run(tmp_path).run()
    assert main(["simulate", "daily_revenue", "--exchange", str(tmp_path)]) == 0
    assert_golden("simulate_recorded.txt", capsys.readouterr().out)


def test_the_ten_terabytes_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    large_run(tmp_path)
    monkeypatch.setenv("AIRFLOW__ADAPTIVE_SPARK__EXCHANGE", str(tmp_path))
    typed, told, *_ = re.findall(
        r"^```(?:bash|text)\n(airflow-abs simulate .*?|daily_revenue.*?)^```$", PAGE, re.DOTALL | re.MULTILINE
    )
    assert main(shlex.split(typed.replace("\\\n", ""))[1:]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(told)
    assert shown.removeprefix(told).startswith("\nrests on:\n")


def test_the_same_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = revenue_run(tmp_path)
    run.run()
    name = str(run.folder.path)
    more = ["--factor", "0.5", "--file-bytes", "1KB", "--target-bytes", "1KB", "--from-trigger", "--json"]
    assert main(["simulate", name, name, *more]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["fitted_to"] == ["daily_revenue/manual__2026-01-03/revenue"] * 2
    assert (told["slots"], told["source_bytes"]) == (2, 2350)  # of 4000 and 700
    # 2000 bytes in files of 1000 over 1024 -> 2
    assert [(each["region"], each["subtasks"], each["waves"]) for each in told["regions"]][:2] == [
        ("orders", 2, 1),
        ("customers", 1, 1),
    ]
    assert any("0.23 for a subtask" in line for line in told["assumptions"])


def test_a_run_that_cannot_keep_up_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    revenue_run(tmp_path).run()
    assert main(["simulate", "daily_revenue", "--exchange", str(tmp_path), "--runs-per-day", "20000"]) == 0
    assert "too slow: a run takes " in capsys.readouterr().out


def test_a_run_that_has_not_ended_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = revenue_run(tmp_path)
    run.run("orders")
    assert main(["simulate", str(run.folder.path)]) == 1
    assert "region customers is not decided; expected a finished run" in capsys.readouterr().err
    run.run("customers")
    run.decide("enriched")
    run.commit("enriched", 0)
    assert main(["simulate", str(run.folder.path)]) == 1
    assert "region enriched is 1 of 6 subtasks committed" in capsys.readouterr().err


def test_a_run_of_several_jobs_asks_for_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    revenue_run(tmp_path).run()
    other = revenue_run(tmp_path)
    other.folder = JobFolder(tmp_path, "daily_revenue", "manual__2026-01-03", "costs")
    other.write_plan()
    assert main(["simulate", "daily_revenue", "--exchange", str(tmp_path)]) == 1
    assert "holds the jobs costs, revenue; name one, as dag_id/run_id/job" in capsys.readouterr().err


@pytest.mark.parametrize("factor", ["0", "-1", "inf", "much"])
def test_a_factor_is_a_number_above_0(factor: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["simulate", "x", f"--factor={factor}"])
    assert "expected a number above 0" in capsys.readouterr().err
