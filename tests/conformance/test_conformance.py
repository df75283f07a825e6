"""Every case read from Flink's sources and tests gives what it expects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from adapter import TOPICS, evaluate

VECTORS = Path(__file__).parent / "vectors"


def load_cases() -> Iterator[Any]:
    for path in sorted(VECTORS.glob("*.json")):
        for case in json.loads(path.read_text())["cases"]:
            yield pytest.param(path.stem, case, id=f"{path.stem}-{case['name']}")


@pytest.mark.parametrize(("topic", "case"), list(load_cases()))
def test_the_core_answers_as_flink_does(topic: str, case: dict[str, Any]) -> None:
    found = evaluate(topic, case.get("version"), case["given"])
    assert {key: found.get(key) for key in case["expect"]} == case["expect"]


def test_every_topic_is_translated_and_every_case_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {path.stem: len(json.loads(path.read_text())["cases"]) for path in sorted(VECTORS.glob("*.json"))}
    assert set(counts) == set(TOPICS)
    assert sum(counts.values()) == len(list(load_cases()))
    with capsys.disabled():
        print("\nconformance cases run:", ", ".join(f"{topic} {count}" for topic, count in counts.items()))
