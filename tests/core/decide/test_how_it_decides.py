"""The examples of docs/how-it-decides.md, and of the log of benchmarks, print what the page says."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

from airflow_abs.core.decide.region_decision import decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions
from airflow_abs.core.graph.partitioning import Partitioning

ROOT = Path(__file__).parents[3]
CORE = ROOT / "airflow_abs" / "core"
VECTORS = ROOT / "tests" / "conformance" / "vectors"
PAGE = (ROOT / "docs" / "how-it-decides.md").read_text()
FLINKS = (ROOT / "docs" / "evidence" / "flink.md").read_text()
BENCHMARKS = (ROOT / "docs" / "evidence" / "benchmarks.md").read_text()
EXAMPLE = re.compile(r"```python\n(.*?)```\s*```text\n(.*?)```", flags=re.DOTALL)
EXAMPLES = [example for page in (PAGE, BENCHMARKS) for example in EXAMPLE.findall(page)]


@pytest.mark.parametrize(("code", "printed"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_prints_what_the_page_says(code: str, printed: str) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "example", "exec"), {})  # noqa: S102
    assert output.getvalue() == printed


def test_every_example_is_run() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") + BENCHMARKS.count("```python") == 7


def test_the_numbers_in_the_text_are_right() -> None:
    mib = 2**20
    rows = [[size * mib for size in (38, 22, 16, 62, 24, 28, 12, 48)]]
    options = RegionOptions(target_bytes=64 * mib, max_parallelism=3)
    decision = decide_region("enriched", [BlockingInput("orders", Partitioning.HASH, rows)], [], options)
    (quoted,) = re.findall(r"`(max_parallelism 3 lets the target grow .*?)`", PAGE.replace("\n", " "))
    assert decision.reason.endswith(quoted)


def test_every_module_that_the_page_names_exists() -> None:
    rules = FLINKS.split("## Deviations")[0]
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)*)`", rules)) - {"balanced", "power_of_two"}
    assert len(named) > 15
    assert {name for name in named if not (CORE / name.replace(".", "/")).with_suffix(".py").is_file()} == set()


def test_the_page_counts_the_cases_of_flink_that_are_run() -> None:
    counts = {path.stem: len(json.loads(path.read_text())["cases"]) for path in VECTORS.glob("*.json")}
    rows = [int(number) for number in re.findall(r"^\|(?:[^|]*\|){2} (\d+) \|", FLINKS, flags=re.MULTILINE)]
    assert sorted(rows) == sorted(counts.values())
    assert f"{sum(counts.values())} cases read from Flink's sources" in FLINKS


def test_a_greedy_cut_would_be_as_uneven_as_the_page_says() -> None:
    sizes, greedy = (38, 22, 16, 62, 24, 28, 12, 48), [0]
    for size in sizes:
        greedy = [*greedy[:-1], greedy[-1] + size] if greedy[-1] + size <= 64 else [*greedy, size]
    assert (
        f"{', '.join(map(str, greedy[:-1]))} and {greedy[-1]} of {', '.join(map(str, sizes[:-1]))} and {sizes[-1]} MiB"
        in FLINKS
    )
