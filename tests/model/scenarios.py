"""The worlds that are searched, by name."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from airflow_abs.exchange.publish.target_table import TableMode
from tests.model.cleaning import CleaningScenario
from tests.model.clearing import ClearingScenario
from tests.model.local import LocalScenario, audited
from tests.model.publishing import Publisher, Scenario, repeatable_tokens
from tests.model.recovering import RecoveringScenario
from tests.model.renewing import RenewingScenario, in_one_thread
from tests.model.table_catalog import CatalogScenario, folders_in_memory
from tests.model.table_sql import sessions_in_memory
from tests.model.tables import Commit, Format, TableScenario

Any_ = (
    CatalogScenario
    | Scenario
    | CleaningScenario
    | ClearingScenario
    | LocalScenario
    | RecoveringScenario
    | RenewingScenario
    | TableScenario
)

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
    "two runs that overwrite partitions, a reader, files of others": Scenario(
        [
            Publisher("a", "overwrite_partitions", files=2, partitions=("1", "2")),
            Publisher("b", "overwrite_partitions", partitions=("2",)),
        ],
        readers=1,
        before=Publisher("old", files=4, partitions=("1", "2", "3")),
        foreign_before=1,
        kills=1,
        sleeps=2,
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
    "two readers of one lost result": RecoveringScenario(kills=1, sleeps=1),
    "four readers of one lost result; answers are lost": RecoveringScenario(4, kills=2, sleeps=3, loses_answers=True),
    "two readers of what a try that started over has lost": RecoveringScenario(kills=1, sleeps=1, restarted=True),
    "rows that are not repeatable are lost": RenewingScenario(),
    "rows that are not repeatable are lost twice; two tries publish": RenewingScenario(losses=2, commits=2),
    "rows that are not repeatable are lost, and a process is killed": RenewingScenario(commits=2, kills=1),
    "a run and gc": CleaningScenario(kills=1, sleeps=2),
    "two runs and two gc, no marker yet": CleaningScenario(runs=2, collectors=2, kills=1, sleeps=2, marked=False),
}

LOCAL: dict[str, Any_] = {
    f"local: {name}, {'swapped' if swaps else 'renamed twice'}": LocalScenario(
        publishers, readers=readers, before=before, kills=1, swaps=swaps, folder=FOLDER
    )
    for swaps in (True, False)
    for name, publishers, before, readers in (
        ("two runs", [Publisher("a", files=2), Publisher("b")], OLD, 1),
        ("two that append", [Publisher("a", "append"), Publisher("b", "append")], None, 1),
        (
            "two that overwrite partitions",  # no reader: a walk through folders is not one step
            [
                Publisher("a", "overwrite_partitions", files=2, partitions=("1", "2")),
                Publisher("b", "overwrite_partitions", partitions=("2",)),
            ],
            Publisher("old", files=4, partitions=("1", "2", "3")),
            0,
        ),
    )
}

_FORMATS: tuple[Format, ...] = ("iceberg", "delta", "postgres")
_MODES: tuple[TableMode, ...] = ("append", "overwrite")

TABLES: dict[str, Any_] = {
    f"{of}, {mode}: two plans, another run, another installation{name}": TableScenario(
        of,
        [
            Commit("monday", mode=mode),
            Commit("monday", plan=2, vertex="renamed", mode=mode),
            Commit("monday", plan=2, vertex="renamed", mode=mode),
            Commit("tuesday", mode=mode),
            Commit("monday", installation="other", mode=mode),
        ],
        strangers=strangers,
        restores=restores,
        expires=expires,
        renames=renames,
        kills=kills,
        loses_answers=loses_answers,
    )
    for of in _FORMATS
    for mode in _MODES
    for name, strangers, restores, expires, renames, kills, loses_answers in (
        (", a stranger", 1, 0, 0, 0, 1, False),
        ("; restored", 1, 2, 0, 0, 0, False),
        ("; snapshots expire", 0, 1, 1, 0, 0, False),
        ("; renamed", 1, 0, 0, 2, 0, False),
        ("; answers are lost", 1, 0, 0, 0, 1, True),
    )
    if (not restores or of != "postgres") and (not expires or of == "iceberg") and (not renames or of == "postgres")
}

TABLES |= {
    f"catalog, {mode}: two plans, another run, another installation{name}": CatalogScenario(
        [
            Commit("monday", mode=mode),
            Commit("monday", plan=2, vertex="renamed", mode=mode),
            Commit("monday", plan=2, vertex="renamed", mode=mode),
            Commit("tuesday", mode=other),
            Commit("monday", installation="other", mode=mode),
        ],
        strangers=2,
        kills=kills,
    )
    for mode, other, name, kills in (
        ("append", "append", "", 1),
        ("append", "overwrite", " that overwrites", 0),
        ("overwrite", "overwrite", "", 0),
    )
}

CLEARED: dict[str, Any_] = {
    "any tasks are cleared and the source is changed": ClearingScenario(folder=FOLDER),
    "tasks are cleared four times": ClearingScenario(clears=4, folder=FOLDER),
}

SMALL: dict[str, Any_] = {
    "two runs": Scenario([Publisher("a"), Publisher("b")]),
    "two readers of one lost result": RecoveringScenario(kills=1, sleeps=1),
}

SMALL_IN_FULL: dict[str, Any_] = {
    "two tries of one run": Scenario([Publisher("a"), Publisher("a")]),
    "two runs, one pause": Scenario([Publisher("a"), Publisher("b")], sleeps=1),
    "a run that is killed, and a reader": Scenario([Publisher("a")], before=Publisher("old"), readers=1, kills=1),
}


def surroundings(scenario: Any_) -> AbstractContextManager[None]:
    """What has to hold while worlds of it are played."""
    if isinstance(scenario, TableScenario):
        return sessions_in_memory()
    if isinstance(scenario, RenewingScenario):
        return in_one_thread()
    if isinstance(scenario, CatalogScenario):
        return folders_in_memory()
    return audited(swaps=scenario.swaps) if isinstance(scenario, LocalScenario) else repeatable_tokens()
