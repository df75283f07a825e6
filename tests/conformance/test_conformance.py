"""Every case read from Flink's sources and tests gives what it expects, and the code that answers is a job's."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from adapter import TOPICS, evaluate

CORE = "airflow_abs.core."
VECTORS = {
    path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "vectors").glob("*.json"))
}
CASES = [
    pytest.param(topic, case, id=f"{topic}-{case['name']}")
    for topic, vectors in VECTORS.items()
    for case in vectors["cases"]
]


def deviations() -> list[str]:
    """The rules in the table of deviations."""
    page = (Path(__file__).parents[2] / "docs" / "evidence" / "flink.md").read_text()
    table = page.partition("## Deviations")[2].partition("\n#")[0]
    return [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")][1:]


def modules_that_answer(topic: str, case: dict[str, Any]) -> set[str]:
    """Modules of the core in which a function is called for this case, their names below `airflow_abs.core`."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            called.add(frame.f_globals.get("__name__", ""))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        evaluate(topic, case.get("version"), case["given"])
    finally:
        sys.setprofile(before)
    return {name.removeprefix(CORE) for name in called if name.startswith(CORE)}


@pytest.mark.parametrize(("topic", "case"), CASES)
def test_the_core_answers_as_flink_does(topic: str, case: dict[str, Any]) -> None:
    found = evaluate(topic, case.get("version"), case["given"])
    assert {key: found.get(key) for key in case["expect"]} == case.get("here", case["expect"])


def test_a_case_that_is_answered_otherwise_or_left_out_is_a_deviation_that_the_docs_state() -> None:
    stated = deviations()
    assert len(stated) == len(set(stated))
    for topic, vectors in VECTORS.items():
        for case in vectors["cases"]:
            assert ("here" in case) == ("deviation" in case), case["name"]
            assert case.get("here") != case["expect"], case["name"]
        named = {case["deviation"] for case in vectors["cases"] if "deviation" in case} | set(
            vectors.get("left_out", ())
        )
        assert named <= set(stated), topic


def test_every_topic_is_translated() -> None:
    assert set(VECTORS) == set(TOPICS)


def test_a_case_is_either_run_or_left_out_for_a_reason() -> None:
    for vectors in VECTORS.values():
        run = [case["name"] for case in vectors["cases"]]
        left_out = [name for names in vectors.get("left_out", {}).values() for name in names]
        assert len(set(run + left_out)) == len(run + left_out)


def test_cases_run_what_jobs_run_and_the_report_says_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    for topic, (_, module) in TOPICS.items():
        cases, left_out = VECTORS[topic]["cases"], VECTORS[topic].get("left_out", {})
        answers = [modules_that_answer(topic, case) for case in cases]
        # A case that calls nothing of the core would prove nothing.
        assert all(answers)
        assert any(module in names for names in answers)
        lines.append(f"{topic:18}{len(cases):4} cases that run what jobs run: {module}")
        otherwise = Counter(case["deviation"] for case in cases if "deviation" in case)
        lines += [f"{'':18}{count:4} of them deviate: {rule}" for rule, count in otherwise.items()]
        lines += [f"{'':18}{len(names):4} left out: {reason}" for reason, names in left_out.items()]
    with capsys.disabled():
        print("\n" + "\n".join(lines))
