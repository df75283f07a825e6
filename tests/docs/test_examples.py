"""What README and the pages tell people to type: DAGs that Airflow reads, commands and settings that exist."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent

import pytest

from airflow_abs.cli.main import main
from airflow_abs.get_provider_info import get_provider_info
from tests.docs import settings_tables

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
SHELLS = ("bash", "console", "sh", "shell")

# Imports DAG files as Airflow does and tells their tasks, in a process of its own: no other test meets their modules.
TELL_TASKS = """
import json, sys
from airflow_abs.airflow_abilities import DagBag

bags = [DagBag(dag_folder=file, safe_mode=False, load_op_links=False) for file in sys.argv[1:]]
tasks = [{name: sorted(dag.task_ids) for name, dag in bag.dags.items()} for bag in bags]
print(json.dumps({"errors": [bag.import_errors for bag in bags], "tasks": tasks}))
"""
PIECE_OF_A_JOB = """
import pendulum
from airflow.sdk import DAG
from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions, VertexOptions
{before}
with DAG("example", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    with {job}:
        orders = AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"), sink=Files("/mart/orders"))
"""


def blocks(page: Path, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [code for language, code in found if language in languages]


def commands(page: Path) -> list[str]:
    """Lines that are typed, and what stands in the text between backquotes and reads like one."""
    typed = [
        line.removeprefix("$ ").strip()
        for block in blocks(page, *SHELLS)
        for line in block.replace("\\\n", " ").splitlines()
        if not block.startswith("$") or line.startswith("$ ")
    ]
    return typed + re.findall(r"`((?:make|airflow-abs)(?: [^`\n]+)?)`", page.read_text())


def all_commands(program: str) -> list[str]:
    found = {command.split("  #")[0].strip() for page in PAGES for command in commands(page)}
    return sorted(command for command in found if command.startswith(f"{program} "))


def tasks_of(codes: Sequence[str], folder: Path) -> list[dict[str, list[str]]]:
    """Task ids by DAG of each DAG file. One process for all: it takes seconds to import Airflow."""
    files = [folder / f"example_{number}.py" for number in range(len(codes))]
    for file, code in zip(files, codes, strict=True):
        file.write_text(code)
    done = subprocess.run(
        [sys.executable, "-c", TELL_TASKS, *files],
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["errors"] == [{}] * len(codes)
    return list(told["tasks"])


def as_dag(piece: str) -> str:
    """A DAG file around a piece of one: the line of a job, or a vertex that reads `orders`, with what is imported."""
    jobs = [line for line in piece.splitlines() if line.startswith("AdaptiveSparkJob(")]
    if jobs:
        return PIECE_OF_A_JOB.format(before=piece.replace(jobs[0], ""), job=jobs[0])
    before = "\n".join(f"def {name}(orders): ..." for name in re.findall(r"transform=(\w+)", piece))
    return PIECE_OF_A_JOB.format(before=before, job='AdaptiveSparkJob("revenue")') + indent(piece, " " * 8)


@pytest.mark.sample
@pytest.mark.slow
def test_the_dags_of_the_pages_can_be_written(tmp_path: Path) -> None:
    """Those of README and of "Write a job" declare the same job in two ways; two pages have pieces of one."""
    pieces = [
        piece
        for name in ("connections", "limits", "tables", "incremental-loads")
        for piece in blocks(ROOT / f"docs/{name}.md", "python")
        if "create_table" not in piece  # a script, which `test_tables_page.py` runs
    ]
    (quickstart,) = blocks(ROOT / "docs" / "start" / "quickstart.md", "python")
    stream, *rescaled = blocks(ROOT / "docs" / "streams.md", "python")
    ways = [*blocks(PAGES[0], "python"), *blocks(ROOT / "docs" / "start" / "writing-a-job.md", "python")]
    pages = [*ways, quickstart, stream + indent("".join(rescaled), " " * 4)]
    short, written, first, streaming, *others = tasks_of([*pages, *map(as_dag, pieces)], tmp_path)
    regions = ("customers", "enriched", "orders", "by_region")
    expected = {f"revenue.{region}.{task}" for region in regions for task in ("decide", "run")}
    expected |= {"revenue.plan", "revenue.by_region.commit", "revenue.release"}
    assert set(short["revenue"]) == set(written["revenue"]) == expected
    assert "revenue.by_region.commit" in first["quickstart"]
    assert streaming["clicks"] == ["all_clicks", "by_minute"]
    assert len(others) == len(pieces) > 0
    for tasks in others:
        assert "revenue.orders.commit" in tasks["example"]


def test_the_tables_of_settings_are_those_of_the_fields() -> None:
    page = settings_tables.PAGE.read_text()
    assert page == settings_tables.written(page), "run: python -m tests.docs.settings_tables"
    assert [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| `slots`")] == ["`slots`"]


def test_every_setting_is_described_to_airflow() -> None:
    options = get_provider_info()["config"]["adaptive_spark"]["options"]
    assert options["slots"]["default"] == ""
    assert options["hot_keys"]["default"] == "True"
    assert [name for name, option in options.items() if not option["description"]] == []
    assert {"exchange", "durability", "embedded_folder"} <= options.keys()


def test_every_make_target_of_the_pages_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {word for command in all_commands("make") for word in command.split()[1:2] if re.fullmatch("[a-z-]+", word)}
    assert {"demo", "test"} <= named <= targets


@pytest.mark.parametrize("command", all_commands("airflow-abs"))
def test_a_command_of_the_pages_exists(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = command.split()[1]
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    options = re.findall(r"--[a-z-]+", command)
    assert all(option in shown for option in options)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_link_of_a_page_leads_nowhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, section = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if section:
            titles = re.findall(r"^#+ (.+)$", file.read_text(), flags=re.MULTILINE)
            slugs = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
            assert section in slugs, target


def test_every_file_that_a_page_names_exists() -> None:
    folders = (
        "core",
        "exchange",
        "spark",
        "operators",
        "triggers",
        "execution",
        "hooks",
        "task_groups",
        "plugins",
        "cli",
    )
    named = {
        name
        for page in PAGES
        for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+(?:\.[a-z]+)?)`", page.read_text())
        if name.split("/")[0] in (*folders, "tests", "docs", "dags")
    }
    assert len(named) > 20
    roots = (ROOT, ROOT / "airflow_abs")
    assert [name for name in sorted(named) if not any((root / name).exists() for root in roots)] == []
