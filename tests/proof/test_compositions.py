"""Never green and wrong: random compositions, proved, narrowed, and if accepted run in parts against the whole.

The rows are distributed by the exchange's own expressions, not by its files (which the corpus and `tests/spark` try):
three subtasks, of which each runs the plan on its own rows in plain Spark. How many compositions:
``AIRFLOW_ABS_COMPOSITIONS`` (60; 20,000 with ``make test-proof``); which: ``AIRFLOW_ABS_COMPOSITIONS_SEED`` (1).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.spark.compile.vertices import CompiledVertex
from airflow_abs.spark.narrowing import columns_and_rows
from airflow_abs.spark.narrowing.columns_and_rows import Written
from airflow_abs.testing.rows import describe_difference
from tests.proof.composition_bench import CONF, STEP, CompositionBench
from tests.proof.compositions import LOSES_KEYS, OPERATORS, PLAIN, Composition, Edge, Step
from tests.proof.key_kinds import ACCEPTED_AS_KEYS, KEY_KINDS, REFUSED_AS_KEYS

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = [pytest.mark.spark, pytest.mark.timeout(6 * 3600)]  # nightly

EXAMPLES = int(os.environ.get("AIRFLOW_ABS_COMPOSITIONS", "60"))
SEED = os.environ.get("AIRFLOW_ABS_COMPOSITIONS_SEED", "1")
PARTS = 3
LEAST_ACCEPTED = 0.1
ONE_IN = 5
"""Of those accepted is planned with a column too few, which costs as much as the rest."""
ACCEPTED, NOT_ANALYSED, FAILS = "accepted", "Spark cannot analyse it", "Spark itself fails"
ORDERED = "plain Spark gives other rows, too, once its input has another order"
OF_SPARK = (NOT_ANALYSED, FAILS, ORDERED)
MOST_OF_SPARK = 0.25


def hashed(*keys: int) -> Edge:
    return Edge(Partitioning.HASH, keys)


BROADCAST = Edge(Partitioning.BROADCAST)
DIVIDED = [hashed(0, 1), hashed(1), hashed(2), hashed(3), hashed(1, 0), hashed(2, 0), Edge(Partitioning.REBALANCE)]
KEEPS_KEYS = sorted(set(OPERATORS) - LOSES_KEYS)


def draw(random: Random) -> Composition:
    """Three of four by the first column of both tables, which nearly all of its steps keep: else nearly everything
    would be refused."""
    lot = random.random()
    kinds = [PLAIN] if lot < 0.45 else ACCEPTED_AS_KEYS if lot < 0.92 else REFUSED_AS_KEYS
    aligned = random.random() < 0.75
    left = hashed(0) if aligned else random.choice(DIVIDED)
    right = random.choice([hashed(0)] * 4 + [BROADCAST]) if aligned else random.choice([*DIVIDED, BROADCAST])
    steps = [_draw_step(random, careful=aligned and random.random() < 0.95) for _ in range(random.randint(2, 6))]
    return Composition(left, right, tuple(steps), random.choice(kinds))


def _draw_step(random: Random, *, careful: bool) -> Step:
    """The numbers 0, 4 and 8 all choose the first column, and differ in the kind of join, of set operation, of derived
    column."""
    if careful:
        return Step(random.choice(KEEPS_KEYS), 0, random.choice([0, 4, 8]))
    return Step(random.choice(sorted(OPERATORS)), random.randrange(8), random.randrange(8))


@pytest.fixture(scope="module")
def bench(connect_server: ConnectEndpoint) -> Iterator[CompositionBench]:
    from airflow_abs.spark.connect.session import open_session

    with open_session(connect_server, config=CONF) as opened:
        yield CompositionBench(opened)


def test_what_is_accepted_gives_in_parts_the_rows_of_the_whole(bench: CompositionBench) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(EXAMPLES):
        composition = draw(Random(f"{SEED}/{number}"))  # noqa: S311
        try:
            outcomes[outcome := try_composition(bench, composition)] += 1
            if outcome == ACCEPTED and outcomes[ACCEPTED] % ONE_IN == 0:
                check_too_few(bench, composition)
        except AssertionError as error:
            error.add_note(f"number {number} of seed {SEED}: {shorten(bench, composition)}")
            raise
    print(
        f"of {EXAMPLES} compositions: {dict(outcomes)}, {bench.missed_columns} columns too few were refused, "
        f"{bench.spread} inputs were spread, {bench.grouped_first} were grouped before a join"
    )
    assert set(outcomes) <= {ACCEPTED, "refused", *OF_SPARK}
    assert sum(outcomes[each] for each in OF_SPARK) < MOST_OF_SPARK * sum(outcomes.values()), outcomes
    # A proof that refuses everything is never wrong, and this test would be none.
    assert outcomes[ACCEPTED] > LEAST_ACCEPTED * sum(outcomes.values()), outcomes
    assert bench.missed_columns > 0
    assert bench.spread > 0


def test_rows_are_grouped_before_they_are_joined(bench: CompositionBench) -> None:
    before = bench.grouped_first
    steps = (Step("join", 0, 0), Step("group", 0, 0))
    assert try_composition(bench, Composition(hashed(0), hashed(0), steps)) == ACCEPTED
    assert bench.grouped_first > before


def shorten(bench: CompositionBench, composition: Composition) -> Composition:
    """Without the steps that it is wrong without."""
    for place in range(len(composition.steps)):
        shorter = replace(composition, steps=composition.steps[:place] + composition.steps[place + 1 :])
        try:
            try_composition(bench, shorter)
        except AssertionError:
            return shorten(bench, shorter)
    return composition


def try_composition(bench: CompositionBench, composition: Composition) -> str:
    """What became of it; fails if it is accepted and wrong, or if `plan` alone fails on it."""
    from pyspark.errors import AnalysisException, PySparkException, PySparkNotImplementedError

    try:
        graph, compiled = bench.prove(composition)
    except (AnalysisException, PySparkNotImplementedError):  # some types cannot be compared, or are not Arrow's
        with pytest.raises(PySparkException):
            bench.compile(composition)
        return NOT_ANALYSED
    except JobGraphError as error:
        if "vertex 'step': Spark itself cannot plan its transform" not in str(error):
            return "refused" if re.match("vertex '(step|left|right)'", str(error)) else f"refused namelessly: {error}"
        _, compiled = bench.compile(composition)
        with pytest.raises(PySparkException):  # Spark's optimizer has bugs of its own
            bench.run_whole(composition, compiled)
        return FAILS
    narrowed = bench.narrow(graph, compiled)
    try:
        whole, parts = bench.run(composition, graph, compiled, PARTS, narrowed)
    except PySparkException:
        with pytest.raises(PySparkException):
            bench.run_whole(composition, compiled)
        return FAILS
    difference = describe_difference(parts, whole)
    if difference is not None and describe_difference(bench.run_whole(composition, compiled, turned=True), whole):
        return ORDERED
    assert difference is None
    for side in may_be_spread(compiled):
        whole, parts = bench.run(composition, graph, compiled, PARTS, narrowed, side)
        assert describe_difference(parts, whole) is None, f"{side} was spread"
        other = {"left": "right", "right": "left"}[side]
        bench.prove(replace(composition, **{side: Edge(Partitioning.REBALANCE), other: BROADCAST}))
        bench.spread += 1
    return ACCEPTED


def may_be_spread(compiled: Mapping[str, CompiledVertex]) -> list[str]:
    """The inputs of the step."""
    step = compiled[STEP]
    return [edge.input_name for placeholder, edge in step.inputs.items() if step.spreads.get(placeholder, "") is None]


def check_too_few(bench: CompositionBench, composition: Composition) -> None:
    """Without one more of the columns that are read, `plan` refuses; or it gives the same rows all the same."""
    graph, compiled = bench.prove(composition)
    narrowed = bench.narrow(graph, compiled)
    find = columns_and_rows._Reading.find
    for name in ("left", "right"):
        keys = {key for edge in graph.outputs_of(name) for key in edge.keys}
        spare = [each for each in narrowed[name].schema.names if each not in keys]
        if narrowed[name].partial or len(spare) < 2:  # files have at least one column
            continue

        def too_few(reading: Any, name: str = name, spare: Sequence[str] = spare) -> dict[str, Written]:
            found: dict[str, Written] = find(reading)
            columns = tuple(each for each in found[name].columns if each != spare[-1])
            return {**found, name: replace(found[name], columns=columns)}

        with mock.patch.object(columns_and_rows._Reading, "find", too_few):
            try:
                fewer = bench.narrow(graph, compiled)
            except JobGraphError as error:
                if f"Spark's plan reads column '{spare[-1]}' of vertex '{name}'" not in str(error):
                    raise
                bench.missed_columns += 1
                continue
        whole, parts = bench.run(composition, graph, compiled, PARTS, fewer)
        assert describe_difference(parts, whole) is None


def test_one_partition_of_the_sessions_own_hides_no_need(bench: CompositionBench) -> None:
    """Found by chance: with `spark.sql.shuffle.partitions` 1, as here, the largest of all groups needed no exchange."""
    assert CONF["spark.sql.shuffle.partitions"] == "1"
    steps = (Step("join", 0, 0), Step("group", 0, 0), Step("all", 1, 0))
    with pytest.raises(JobGraphError, match="vertex 'step' cannot run in parts: an aggregate"):
        bench.prove(Composition(hashed(0), hashed(0), steps))


@pytest.mark.parametrize(
    ("steps", "side"),
    [((Step("join", 0, 0), Step("group", 0, 0)), "left"), ((Step("join", 0, 1),), "right")],
)
def test_an_input_that_was_spread_wrongly_would_be_seen(
    bench: CompositionBench, steps: tuple[Step, ...], side: str
) -> None:
    composition = Composition(hashed(0), hashed(0), steps)
    graph, compiled = bench.prove(composition)
    assert side not in may_be_spread(compiled)
    whole, parts = bench.run(composition, graph, compiled, PARTS, spread=side)
    assert describe_difference(parts, whole) is not None


def test_a_wrong_acceptance_would_be_seen(bench: CompositionBench) -> None:
    by_b = Edge(Partitioning.HASH, (1,))
    wrong = Composition(Edge(Partitioning.HASH, (0,)), by_b, (Step("group", 2, 2), Step("semi_join", 0, 2)))
    assert not gives_the_same(bench, wrong)
    with pytest.raises(JobGraphError, match="vertex 'step'"):
        bench.prove(wrong)


def gives_the_same(bench: CompositionBench, composition: Composition) -> bool:
    """Whether parts give the rows of the whole, whatever the proof says."""
    graph, compiled = bench.compile(composition)
    whole, parts = bench.run(composition, graph, compiled, PARTS)
    return describe_difference(parts, whole) is None


def count_by_first_column(kind: str) -> Composition:
    return Composition(hashed(0), Edge(Partitioning.BROADCAST), (Step("group", 0, 3),), kind)


@pytest.mark.parametrize("kind", KEY_KINDS)
def test_a_type_is_accepted_as_a_key_or_refused_as_what_it_is(bench: CompositionBench, kind: str) -> None:
    outcome = try_composition(bench, count_by_first_column(kind))
    if kind in REFUSED_AS_KEYS:
        assert outcome in ("refused", NOT_ANALYSED)  # Spark itself groups by no map
    else:
        assert outcome == ACCEPTED


@pytest.mark.parametrize("kind", ["collated", "struct of a collated", "array of structs of collated"])
def test_a_key_whose_equal_values_hash_differently_would_be_seen(bench: CompositionBench, kind: str) -> None:
    """As it was while only a key's own type was looked at, not what is inside of it."""
    with mock.patch("airflow_abs.spark.compile.key_types._check_key_type"):
        assert not gives_the_same(bench, count_by_first_column(kind))


@pytest.mark.parametrize("operator", ["pandas_by_key", "arrow_total", "pandas_groups"])
def test_an_opaque_function_that_lacks_rows_of_its_partition_would_be_seen(
    bench: CompositionBench, operator: str
) -> None:
    steps = (Step("semi_join", 0, 0), Step(operator, 0, 0))
    by_b = Composition(hashed(1), Edge(Partitioning.BROADCAST), steps)
    assert not gives_the_same(bench, by_b)
    assert try_composition(bench, by_b) == "refused"
