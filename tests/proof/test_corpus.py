"""A green run is a right run: every entry of the corpus against plain Spark.

At 3 subtasks, each entry once; at 1, 2 and 7 with ``make test-proof`` (AIRFLOW_ABS_CORPUS_AT), where plain Spark runs
also what is refused, and joins without edges meet small tables, too.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from airflow_abs.core.decide import hot_subpartitions
from airflow_abs.core.durability import broadcast_join
from airflow_abs.core.durability.broadcast_join import BroadcastJoin
from airflow_abs.spark import durable_edges
from airflow_abs.spark.connect.abilities import release_number
from airflow_abs.spark.proof.operators import all_are_known
from airflow_abs.testing.corpus import FAMILIES, read_corpus
from airflow_abs.testing.corpus_bench.entries import Entry
from airflow_abs.testing.corpus_bench.runner import Bench, Outcome, Verdict, run_corpus, run_spread, run_whole
from airflow_abs.testing.corpus_bench.sample import SAMPLE
from airflow_abs.testing.corpus_bench.table import describe_exceptions
from testbed.environments import server_release
from tests.proof.known import FAILED, GREEN_BUT_WRONG, NEEDLESS

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:WARN WindowExpression"),  # plain Spark, of windows that are refused here
]

AT = [int(each) for each in os.environ.get("AIRFLOW_ABS_CORPUS_AT", "3").split(",")]
IN_FULL = len(AT) > 1
WITHOUT_EDGES = FAMILIES if os.environ.get("AIRFLOW_ABS_CORPUS_WITHOUT_EDGES") == "all" else ("joins",)
"""Families that are tried without edges, too; all of them with `make test-proof`."""
TABLE_SIZES: Mapping[str, Mapping[str, str]] = {"small": {}, "large": {"spark.sql.autoBroadcastJoinThreshold": "-1"}}
"""What Spark takes the tables for."""
MOSTLY = 0.8
"""A search that finds no edges is never wrong, and its test would be none."""
NEWER_OPERATORS: Mapping[tuple[int, int], Collection[str]] = {
    (4, 1): ("ArrowAggregatePython",),
    (4, 2): ("ArrowEvalPython", "ArrowEvalPythonUDTF"),
}
"""What Spark shows by default since a release line."""
OLDER_OPERATORS = {"AggregateInPandas", "BatchEvalPython", "BatchEvalPythonUDTF"}
"""What older releases show in their places."""
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
    "run the server on Spark",
)
"""Every refusal says what to write."""
REFUSED_AS_A_WHOLE = (
    "picks other rows when they are distributed differently",
    "takes its columns from the data",
    "has no common type",
    "runs an action",
    "use a column of the data instead",
    "as spark_conf=",
    "hand the DataFrame",
    "expected ",
)


def corpus(families: tuple[str, ...] = FAMILIES) -> list[Entry]:
    """What the server's Spark runs."""
    return read_corpus(families, server_release())


def names(verdicts: list[Verdict], outcome: Outcome) -> set[str]:
    return {verdict.entry.name for verdict in verdicts if verdict.outcome is outcome}


def assert_in_our_words(verdicts: list[Verdict]) -> None:
    """Refusals name the vertex and say what to write."""
    for verdict in verdicts:
        if verdict.outcome in (Outcome.REFUSED, Outcome.NEEDLESS):
            assert f"vertex {verdict.entry.name!r}" in verdict.detail
            assert any(remedy in verdict.detail for remedy in REMEDIES), verdict.detail


def is_untried(verdict: Verdict) -> bool:
    """Whether it is refused on this release only, by the name of an operator."""
    return not all_are_known(server_release()) and "was not tried on Spark" in verdict.detail


@pytest.fixture(scope="module")
def bench(connect_server: ConnectEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.prepare(connect_server, tmp_path_factory.mktemp("corpus"))


@pytest.mark.sample
def test_a_transform_for_each_operator_and_each_reason_is_refused_or_gives_plain_sparks_rows(bench: Bench) -> None:
    entries = [entry for entry in corpus() if entry.name in SAMPLE.values()]
    verdicts = try_entries(replace(bench, job="sample"), entries)
    shown = frozenset().union(*(verdict.shown for verdict in verdicts))
    names = {entry.name for entry in entries}  # an older client has no zipWithIndex, nor server recursion
    server = release_number(server_release())
    missing = {what for line, operators in NEWER_OPERATORS.items() if server < line for what in operators}
    assert {what for what, name in SAMPLE.items() if name in names and what not in shown} == missing


def test_what_may_not_run_in_parts_gives_plain_sparks_rows_as_one_subtask(bench: Bench) -> None:
    among = {entry.name for entry in corpus()} if IN_FULL else set(SAMPLE.values())
    entries = [entry for entry in corpus() if entry.name in among and not entry.safe]
    verdicts = run_whole(replace(bench, job="whole"), entries)
    assert names(verdicts, Outcome.WRONG) | names(verdicts, Outcome.FAILED) == set(), describe_exceptions(verdicts)
    whole = names(verdicts, Outcome.RIGHT)
    assert len(whole) > len(entries) / 2
    refused = {each.entry.name: each.detail for each in verdicts if each.entry.name not in whole}
    assert [name for name, detail in refused.items() if not any(each in detail for each in REFUSED_AS_A_WHOLE)] == []


@contextmanager
def everything_is_hot() -> Iterator[None]:
    """Every subpartition with a row is cut, the largest first, as long as there is room: two parts, or eight."""
    with (
        mock.patch.object(hot_subpartitions, "_SHARE_OF_BOUND", 4 if IN_FULL else 16),  # of 32 subtasks
        mock.patch.object(hot_subpartitions, "compute_hot_threshold", return_value=0),
        mock.patch.object(hot_subpartitions, "compute_part_bytes", return_value=1),
    ):
        yield


@pytest.mark.parametrize("family", FAMILIES if IN_FULL else ("joins",))
def test_every_input_that_may_be_spread_gives_plain_sparks_rows(family: str, bench: Bench) -> None:
    with everything_is_hot():
        verdicts, parts = run_spread(replace(bench, job=f"spread {family}"), corpus((family,)))
    assert {verdict.outcome for verdict in verdicts} <= {Outcome.RIGHT}, describe_exceptions(verdicts)
    print(f"{family}: {len(verdicts)} transforms, {parts} parts of hot subpartitions")
    assert parts > len(verdicts)


@contextmanager
def every_join_is_broadcast() -> Iterator[list[BroadcastJoin]]:
    """Wherever the proof allows it, however small the large side is and whoever else reads it."""
    found: list[BroadcastJoin] = []

    def find(*today: Any) -> list[BroadcastJoin]:
        found.extend(joins := broadcast_join.find_broadcast_joins(*today))
        return joins

    with (
        mock.patch.object(broadcast_join, "WORTH_BYTES", 0),
        mock.patch.object(broadcast_join, "_has_other_reader", return_value=False),
        mock.patch.object(durable_edges, "find_broadcast_joins", find),
    ):
        yield found


@pytest.mark.parametrize("family", FAMILIES if IN_FULL else ("joins",))
def test_every_join_that_may_be_broadcast_gives_plain_sparks_rows(family: str, bench: Bench) -> None:
    entries = [entry for entry in corpus((family,)) if entry.safe]
    with every_join_is_broadcast() as joins:
        verdicts = run_corpus(replace(bench, job=f"broadcast {family}"), entries, AT)
    own = {entry.name for entry in entries}
    assert names(verdicts, Outcome.WRONG) == own & set(GREEN_BUT_WRONG), describe_exceptions(verdicts)
    assert names(verdicts, Outcome.FAILED) == own & set(FAILED), describe_exceptions(verdicts)
    print(f"{family}: {len(verdicts)} transforms, {len({join.region for join in joins})} broadcast joins")
    assert joins or family != "joins"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_transform_is_refused_or_gives_plain_sparks_rows(family: str, bench: Bench) -> None:
    sampled = set() if IN_FULL else set(SAMPLE.values())
    entries = [entry for entry in corpus((family,)) if entry.name not in sampled]
    verdicts = try_entries(replace(bench, job=family), entries)
    expected = SAMPLE.keys() | (set() if all_are_known(server_release()) else OLDER_OPERATORS)
    shown = {what: each.entry.name for each in verdicts if not is_untried(each) for what in each.shown}
    assert {what: name for what, name in shown.items() if what not in expected} == {}


def try_entries(bench: Bench, entries: list[Entry]) -> list[Verdict]:
    """Fails if a verdict is not the one that is known."""
    verdicts = run_corpus(bench, entries, AT, with_refused=IN_FULL)
    own = {entry.name for entry in entries}
    shown = describe_exceptions(verdicts)
    assert names(verdicts, Outcome.WRONG) == own & set(GREEN_BUT_WRONG), shown
    assert names(verdicts, Outcome.FAILED) == own & set(FAILED), shown
    needless = {each.entry.name for each in verdicts if each.outcome is Outcome.NEEDLESS and not is_untried(each)}
    assert needless == own & set(NEEDLESS), shown
    assert_in_our_words(verdicts)
    return verdicts


def test_the_lists_of_what_is_known_name_entries_and_hold_no_more_than_they_may() -> None:
    entries = read_corpus()
    safe = {entry.name for entry in entries if entry.safe}
    assert set(GREEN_BUT_WRONG) | set(FAILED) <= {entry.name for entry in entries}
    assert set(NEEDLESS) <= safe
    assert len(NEEDLESS) <= 0.02 * len(safe)


@pytest.mark.parametrize("size", TABLE_SIZES if IN_FULL else ["large"])
@pytest.mark.parametrize("family", WITHOUT_EDGES)
def test_every_safe_transform_without_edges_gives_plain_sparks_rows_or_is_refused(
    family: str, size: str, bench: Bench
) -> None:
    entries = [entry.without_edges() for entry in corpus((family,)) if entry.safe]
    verdicts = run_corpus(replace(bench, job=f"{family}, {size}", spark_conf=TABLE_SIZES[size]), entries, AT)
    assert {verdict.outcome for verdict in verdicts} <= {Outcome.RIGHT, Outcome.NEEDLESS}, describe_exceptions(verdicts)
    assert_in_our_words(verdicts)
    assert len(names(verdicts, Outcome.RIGHT)) > MOSTLY * len(entries), describe_exceptions(verdicts)
