"""The examples of docs/how-it-decides.md print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from airflow_abs.core.decide.region_decision import BlockingInput, RegionOptions, decide_region
from airflow_abs.core.graph.partitioning import Partitioning

PAGE = (Path(__file__).parents[3] / "docs" / "how-it-decides.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\s*```text\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("example", range(3))
def test_an_example_prints_what_the_page_says(example: int) -> None:
    code, printed = EXAMPLES[example]
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "docs/how-it-decides.md", "exec"), {})  # noqa: S102
    assert output.getvalue() == printed


def test_every_example_is_run() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 3


def test_the_numbers_in_the_text_are_right() -> None:
    mib = 2**20
    rows = [[size * mib for size in (38, 22, 16, 62, 24, 28, 12, 48)]]
    options = RegionOptions(target_bytes=64 * mib, max_parallelism=3)
    decision = decide_region("enriched", [BlockingInput("orders", Partitioning.HASH, rows)], [], options)
    (quoted,) = re.findall(r"`(max_parallelism 3 lets the target grow .*?)`", PAGE.replace("\n", " "))
    assert decision.reason.endswith(quoted)


def test_every_module_that_the_page_names_exists() -> None:
    core = Path(__file__).parents[3] / "airflow_abs" / "core"
    table = PAGE.split("| Flink | module")[1].split("\n\n")[0]
    named = set(re.findall(r"`([a-z_]+)`", table))
    assert len(named) > 20
    assert named <= {path.stem for path in core.glob("*.py")}
