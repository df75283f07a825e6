"""The worlds that are searched, by name."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from tests.model.cleaning import CleaningScenario
from tests.model.local import LocalScenario, audited
from tests.model.publishing import Publisher, Scenario, repeatable_tokens

Any_ = Scenario | CleaningScenario | LocalScenario

MEMORY = Path("/dev/shm")
FOLDER = str(MEMORY) if MEMORY.is_dir() else None

OLD = Publisher("old", files=2)

STORE: dict[str, Any_] = {
    "two runs": Scenario([Publisher("a"), Publisher("b")], kills=1, sleeps=1),
    "two runs, a reader, files of others": Scenario(
        [Publisher("a", files=2), Publisher("b")], readers=1, before=OLD, foreign_before=1, kills=1, sleeps=2
    ),
    "two that append, and a stranger": Scenario(
        [Publisher("a", "append"), Publisher("b", "append")], foreign_writers=1, before=OLD, kills=1, sleeps=2
    ),
    "two tries of one run, and a reader": Scenario(
        [Publisher("a"), Publisher("a")], readers=1, before=OLD, kills=1, sleeps=1
    ),
    "a repeated publication that lost a file": Scenario(
        [Publisher("old", files=2, released=True), Publisher("b", "append")],
        before=OLD,
        vanished=1,
        foreign_before=1,
        kills=1,
        sleeps=1,
    ),
    "two runs with two tries, and a reader; answers are lost": Scenario(
        [Publisher("a"), Publisher("b", "append"), Publisher("a")],
        readers=1,
        before=OLD,
        foreign_before=1,
        kills=2,
        sleeps=3,
        loses_answers=True,
    ),
    "a run and gc": CleaningScenario(kills=1, sleeps=2),
    "two runs and two gc, no marker yet": CleaningScenario(runs=2, collectors=2, kills=1, sleeps=2, marked=False),
}

LOCAL: dict[str, Any_] = {
    f"local: {name}, {'swapped' if swaps else 'renamed twice'}": LocalScenario(
        publishers, readers=1, before=before, kills=1, swaps=swaps, folder=FOLDER
    )
    for swaps in (True, False)
    for name, publishers, before in (
        ("two runs", [Publisher("a", files=2), Publisher("b")], OLD),
        ("two that append", [Publisher("a", "append"), Publisher("b", "append")], None),
    )
}

SMALL: dict[str, Any_] = {
    "two runs": Scenario([Publisher("a"), Publisher("b")]),
}

SMALL_IN_FULL: dict[str, Any_] = {
    "two tries of one run": Scenario([Publisher("a"), Publisher("a")]),
    "two runs, one pause": Scenario([Publisher("a"), Publisher("b")], sleeps=1),
    "a run that is killed, and a reader": Scenario([Publisher("a")], before=Publisher("old"), readers=1, kills=1),
}


def surroundings(scenario: Any_) -> AbstractContextManager[None]:
    """What has to hold while worlds of it are played."""
    return audited(swaps=scenario.swaps) if isinstance(scenario, LocalScenario) else repeatable_tokens()
