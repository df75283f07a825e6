"""A green run is a right run: every entry of the corpus against plain Spark.

At 3 subtasks; at 1, 2 and 7 with ``make test-proof`` (AIRFLOW_ABS_CORPUS_AT), which takes twice as long and has plain
Spark run also what is refused.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.proof.corpus import FAMILIES, read_corpus
from tests.proof.known import FAILED, GREEN_BUT_WRONG, NEEDLESS
from tests.proof.runner import Bench, Outcome, Verdict, run_corpus
from tests.proof.table import describe_exceptions

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:WARN WindowExpression"),  # plain Spark, of windows that are refused here
]

AT = [int(each) for each in os.environ.get("AIRFLOW_ABS_CORPUS_AT", "3").split(",")]
WITHOUT_EDGES = FAMILIES if os.environ.get("AIRFLOW_ABS_CORPUS_WITHOUT_EDGES") == "all" else ("joins",)
"""Families that are tried without edges, too; all of them with `make test-proof`."""
MOSTLY = 0.8
"""A search that finds no edges is never wrong, and its test would be none."""
REMEDIES = (
    "hash(",
    "broadcast()",
    "parallelism=1",
    "per_subtask=True",
    "source=",
    "drop ",
    "use ",
    "cast ",
    "give it to ",
    "as spark_conf=",
    "hand the DataFrame",
    "expected ",
    "Cut it there",
    "pivot('c', ['a', 'b'])",
    "pivot('b', ['x', 'y'])",
    "with the columns written out",
)
"""Every refusal says what to write."""


def names(verdicts: list[Verdict], outcome: Outcome) -> set[str]:
    return {verdict.entry.name for verdict in verdicts if verdict.outcome is outcome}


def assert_in_our_words(verdicts: list[Verdict]) -> None:
    """Refusals name the vertex and say what to write."""
    for verdict in verdicts:
        if verdict.outcome in (Outcome.REFUSED, Outcome.NEEDLESS):
            assert f"vertex {verdict.entry.name!r}" in verdict.detail
            assert any(remedy in verdict.detail for remedy in REMEDIES), verdict.detail


@pytest.mark.parametrize("family", FAMILIES)
def test_every_transform_is_refused_or_gives_plain_sparks_rows(
    family: str, connect_server: ConnectEndpoint, tmp_path_factory: pytest.TempPathFactory
) -> None:
    entries = read_corpus((family,))
    bench = Bench.prepare(connect_server, tmp_path_factory.mktemp(family))
    verdicts = run_corpus(bench, entries, AT, with_refused=len(AT) > 1)
    own = {entry.name for entry in entries}
    shown = describe_exceptions(verdicts)
    assert names(verdicts, Outcome.WRONG) == own & set(GREEN_BUT_WRONG), shown
    assert names(verdicts, Outcome.FAILED) == own & set(FAILED), shown
    assert names(verdicts, Outcome.NEEDLESS) == own & set(NEEDLESS), shown
    assert_in_our_words(verdicts)


def test_the_lists_of_what_is_known_name_entries_and_hold_no_more_than_they_may() -> None:
    entries = read_corpus()
    safe = {entry.name for entry in entries if entry.safe}
    assert set(GREEN_BUT_WRONG) | set(FAILED) <= {entry.name for entry in entries}
    assert set(NEEDLESS) <= safe
    assert len(NEEDLESS) <= 0.02 * len(safe)


@pytest.mark.parametrize("conf", [{}, {"spark.sql.autoBroadcastJoinThreshold": "-1"}], ids=["small", "large"])
@pytest.mark.parametrize("family", WITHOUT_EDGES)
def test_every_safe_transform_without_edges_gives_plain_sparks_rows_or_is_refused(
    family: str, conf: dict[str, str], connect_server: ConnectEndpoint, tmp_path_factory: pytest.TempPathFactory
) -> None:
    entries = [entry.without_edges() for entry in read_corpus((family,)) if entry.safe]
    bench = Bench.prepare(connect_server, tmp_path_factory.mktemp(family), conf)
    verdicts = run_corpus(bench, entries, AT)
    assert {verdict.outcome for verdict in verdicts} <= {Outcome.RIGHT, Outcome.NEEDLESS}, describe_exceptions(verdicts)
    assert_in_our_words(verdicts)
    assert len(names(verdicts, Outcome.RIGHT)) > MOSTLY * len(entries), describe_exceptions(verdicts)
