"""`airflow-abs explain`: what a person reads of a run, from its exchange alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.cli.main import main
from airflow_abs.core.wording import format_bytes
from airflow_abs.exchange.records.manifest import InnerResult, write_manifest
from airflow_abs.exchange.records.plan import PlannedEdge, read_plan
from airflow_abs.exchange.runs.run_json import run_to_json
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.storage.whole_files import write_json
from tests.file_reads import record_reads
from tests.recorded_runs import chain_run, revenue_run

Golden = Callable[[str, str], None]


def test_a_finished_run_is_told_as_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], assert_golden: Golden
) -> None:
    revenue_run(tmp_path).run()
    assert main(["explain", "daily_revenue/manual__2026-01-03", "--exchange", str(tmp_path)]) == 0
    assert_golden("explain_finished.txt", capsys.readouterr().out)


def test_a_run_that_lives_shows_what_is_undecided_committed_and_of_another_attempt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], assert_golden: Golden
) -> None:
    run = revenue_run(tmp_path)
    run.run("orders", "customers")
    run.decide("enriched")
    run.commit("enriched", 0)
    run.commit("enriched", 2, attempt=3)
    assert main(["explain", str(run.folder.path), "--all"]) == 0
    assert_golden("explain_live.txt", capsys.readouterr().out)


def test_a_run_as_a_graph_for_graphviz(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], assert_golden: Golden
) -> None:
    run = revenue_run(tmp_path)
    run.run("orders", "customers", "enriched")
    assert main(["explain", str(run.folder.path.parent), "--dot"]) == 0
    assert_golden("explain.dot", capsys.readouterr().out)


def test_a_run_as_json_has_every_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    revenue_run(tmp_path).run()
    assert main(["explain", "daily_revenue", "--exchange", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["dag_id"], told["run_id"], told["job"]) == ("daily_revenue", "manual__2026-01-03", "revenue")
    assert [region["title"] for region in told["regions"]] == ["orders", "customers", "enriched", "rates + by_region"]
    enriched = told["regions"][2]
    assert enriched["parallelism"] == len(enriched["subtasks"]) == 6
    assert sum(enriched["bytes_by_subpartition"]) == sum(subtask["bytes"] for subtask in enriched["subtasks"])
    assert enriched["subtasks"][2]["subpartitions"] == [5, 6]
    assert [(edge["kind"], edge["vertex"]) for edge in enriched["edges"]] == [
        ("hash", "orders"),
        ("broadcast", "customers"),
    ]


def test_what_was_predicted_and_what_is_strange_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = revenue_run(tmp_path)
    told = run.plan.to_json() | {
        "usual": {"orders": {"median": 800, "least": 700, "most": 900, "days": 5, "weekday": "Monday"}},
        "predictions": {
            "orders": {"seconds": 2.0, "input_bytes": 4000, "output_bytes": 2000, "from_history": True},
            "enriched": {"seconds": 1.0, "input_bytes": 1, "output_bytes": 7},
        },
    }
    write_json(run.folder.plan_path, told)
    run.run("orders", "customers")
    run.decide("enriched")
    assert main(["explain", str(run.folder.path)]) == 0
    shown = capsys.readouterr().out
    size = format_bytes(read_run(run.folder).region("orders").bytes_out or 0)
    assert f"  predicted 2.0 s and 2.0 KiB from earlier runs; took 2.5 s and wrote {size}\n" in shown
    assert "  predicted 1.0 s and 7 B from the defaults\n" in shown
    strange = "orders is 5.0 times its Monday median: 3.9 KiB instead of 800 B (5 Mondays: 700 B to 900 B)"
    assert f"  strange: {strange}\n" in shown
    assert shown.count("predicted") == 2


def test_what_another_version_wrote_is_told_and_the_rest_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = revenue_run(tmp_path)
    run.run("orders", "customers")
    write_json(run.folder.decision_path("customers"), {"plan": "plan-1"})
    assert main(["explain", str(run.folder.path)]) == 0
    shown = capsys.readouterr().out
    assert "customers: not decided yet" in shown
    assert "cannot be read: " in shown
    assert "decision.json: Object missing required field `decision`; the record is damaged, or another" in shown
    assert "orders: 3.9 KiB in 4 splits" in shown


def test_a_damaged_manifest_is_told_and_the_rest_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = revenue_run(tmp_path)
    run.run("orders")
    path = Path(str(run.folder.manifest_path("orders", 1)))
    path.write_bytes(path.read_bytes()[:-20])
    assert main(["explain", str(run.folder.path)]) == 0
    shown = capsys.readouterr().out
    assert "that do not end in a checksum; the file is truncated" in shown
    assert "        2  1 file    900 B   143    1.5 KiB      1.7        1  committed" in shown


def test_ids_with_slashes_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    revenue_run(tmp_path, run_id="manual/2026/01").run("orders")
    for name in ("daily_revenue/manual/2026/01", "daily_revenue/manual/2026/01/revenue", "daily_revenue"):
        assert main(["explain", name, "--exchange", str(tmp_path)]) == 0
        assert "daily_revenue / manual/2026/01 / revenue" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "nix"], "run 'nix': no such folder of a run, and no exchange to look in; name the folder, or"),
        (["explain", "nix", "--exchange", "."], "run 'nix': not in the exchange "),
        (["explain", "nix.py"], "nix.py: no such file; expected a DAG file"),
        (
            ["runs"],
            "no exchange is given; name it with --exchange, or set AIRFLOW__ADAPTIVE_SPARK__EXCHANGE or [adaptive_",
        ),
        (["runs", "--exchange", "nofs://x/y"], "exchange nofs://x/y: cannot be opened here (ValueError: "),
    ],
)
def test_a_run_that_is_not_there_is_told_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW__ADAPTIVE_SPARK__EXCHANGE", raising=False)
    assert main(arguments) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"airflow-abs: {message}")
    assert told.count("\n") == 1


@pytest.mark.slow
def test_of_twenty_vertices_of_128_subtasks_every_file_is_read_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What that costs in time, `python -m benchmarks --only explain` measures."""
    chain_run(tmp_path, regions=20, subtasks=128).run()
    read = record_reads(monkeypatch)
    assert main(["explain", "chain", "--exchange", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("128") > 20
    assert Counter(Path(path).name for path in read) == {
        "plan.json": 1,
        "decision.json": 20,
        "manifest.json": 20 * 128,
        "hot-key.json": 19,  # of those that read a hot subpartition
    }
    assert len(set(read)) == len(read)


def test_explaining_a_run_loads_neither_airflow_nor_spark(tmp_path: Path) -> None:
    revenue_run(tmp_path).run()
    script = f"""
import sys
from airflow_abs.cli.main import main
main(["explain", "daily_revenue", "--exchange", {str(tmp_path)!r}])
print([name for name in ("airflow", "pyspark", "grpc", "pyarrow", "pandas", "duckdb") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_a_dag_file_is_drawn_before_anything_ran(dags: Path, assert_golden: Golden) -> None:
    """In a process of its own: it imports Airflow."""
    for name, options in (("pipelined.txt", []), ("daily_revenue.dot", ["--dot"])):
        command = [sys.executable, "-W", "ignore", "-m", "airflow_abs.cli.main", "explain"]
        file = dags / f"{name.partition('.')[0]}.py"
        done = subprocess.run([*command, str(file), *options], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert_golden(f"file_{name}", done.stdout)


@pytest.mark.slow
def test_a_dag_file_that_cannot_be_imported_is_told_with_its_trace(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("import airflow\nprint(undefined)\n")
    command = [sys.executable, "-W", "ignore", "-m", "airflow_abs.cli.main", "explain", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"airflow-abs: {file} cannot be imported:" in done.stderr
    assert "NameError: name 'undefined' is not defined" in done.stderr


@pytest.fixture
def dags() -> Path:
    return Path(__file__).parents[3] / "dags"


def test_every_edge_says_why_it_is_written_or_kept_inside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = revenue_run(tmp_path)
    run.run()
    for manifest in run.manifests["by_region"].values():  # of a second try, which wrote each vertex for the next
        write_manifest(run.folder, replace(manifest, inner={"rates": InnerResult(rows=10, bytes=1024)}))
    subtasks = len(run.manifests["by_region"])
    edges = [
        PlannedEdge("orders", "enriched", "orders", True, "durable: writing 1.0 GiB costs 12 s; ..."),
        PlannedEdge("enriched", "by_region", "enriched", False, "kept inside Spark: durable=False; ..."),
        PlannedEdge("rates", "by_region", "rates", False, "kept inside Spark: ..."),
    ]
    plan = replace(read_plan(run.folder), edges=tuple(edges))
    write_json(run.folder.plan_path, plan.to_json())
    assert main(["explain", str(run.folder.path)]) == 0
    shown = capsys.readouterr().out
    assert "  edge orders -> enriched.orders: durable: writing 1.0 GiB costs 12 s; ...\n" in shown
    assert "  edge enriched -> by_region.enriched: kept inside Spark: durable=False; ...\n" in shown
    written = f"wrote {subtasks}.0 KiB in {subtasks * 10} rows"
    assert f"  edge rates -> by_region.rates: kept inside Spark: ...; {written}\n" in shown
    (told,) = run_to_json(read_run(run.folder))["regions"][-1]["inside"]
    assert (told["producer"], told["rows"], told["bytes"]) == ("rates", subtasks * 10, subtasks * 1024)
