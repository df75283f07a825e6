"""`airflow-abs replay`: the same options give the same decision; others are shown side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.cli.main import main
from airflow_abs.exchange.storage.whole_files import write_json
from tests.recorded_runs import revenue_run

Golden = Callable[[str, str], None]


def test_recorded_options_give_the_recorded_decisions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], assert_golden: Golden
) -> None:
    revenue_run(tmp_path).run()
    assert main(["replay", "daily_revenue", "--exchange", str(tmp_path)]) == 0
    assert_golden("replay_recorded.txt", capsys.readouterr().out)


def test_other_options_are_shown_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], assert_golden: Golden
) -> None:
    revenue_run(tmp_path).run()
    options = ["--target-bytes", "4KB", "--max-parallelism", "2", "--strategy", "power_of_two"]
    assert main(["replay", "daily_revenue", "--exchange", str(tmp_path), *options]) == 0
    assert_golden("replay_others.txt", capsys.readouterr().out)


def test_a_replay_as_json_holds_both_decisions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = revenue_run(tmp_path)
    run.run()
    assert main(["replay", str(run.folder.path), "--json", "--target-bytes", "100KB"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["same"] is False
    assert [(each["recorded"]["parallelism"], each["again"]["parallelism"]) for each in told["regions"]] == [
        (4, 1),
        (1, 1),
        (6, 1),
        (9, 1),
    ]


def test_what_a_producer_wrote_after_the_decision_does_not_matter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], assert_golden: Golden
) -> None:
    run = revenue_run(tmp_path)
    run.run()
    run.commit("orders", 1, attempt=2, grown=300)
    Path(str(run.folder.manifest_path("orders", 3))).unlink()
    assert main(["replay", str(run.folder.path)]) == 0
    assert_golden("replay_recorded.txt", capsys.readouterr().out)


def test_a_decision_that_the_recorded_options_do_not_give_again_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if its rule had changed since."""
    run = revenue_run(tmp_path)
    run.run()
    stored = replace(run.stored["enriched"], measured={"enriched.orders": [900] * 16, "enriched.customers": [41]})
    write_json(run.folder.decision_path("enriched"), stored.to_json())
    assert main(["replay", str(run.folder.path)]) == 1
    assert "1 of 4 decisions different: 20 subtasks then, 30 now" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--target-bytes", "much"], ["--max-parallelism", "0"]])
def test_wrong_options_are_usage_errors(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["replay", "x", *options])
    assert "expected" in capsys.readouterr().err


def test_runs_lists_the_newest_first_with_what_they_decided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    revenue_run(tmp_path, run_id="one").run()
    revenue_run(tmp_path, run_id="two").run("orders")
    (tmp_path / "stray" / "file").mkdir(parents=True)
    assert main(["runs", "--exchange", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["dag_id"], each["run_id"], each["decided"], each["subtasks"]) for each in told] == [
        ("daily_revenue", "two", "1/4", 4),
        ("daily_revenue", "one", "4/4", 20),
    ]
    assert main(["runs", "--exchange", str(tmp_path)]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading == "  dag            run  job      planned (UTC)        decided  subtasks"
    assert len(lines) == 2
    assert main(["runs", "--exchange", str(tmp_path / "stray")]) == 0
    assert "no run in " in capsys.readouterr().out
