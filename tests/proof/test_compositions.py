"""Never green and wrong: random compositions, proved, and if accepted run in parts against the whole.

The parts are dealt out here, not by the exchange (whose dealing out the corpus and `tests/spark` try): three subtasks,
of which each runs the transform on its own rows in plain Spark. How many compositions:
``AIRFLOW_ABS_COMPOSITIONS`` (100; 20,000 with ``make test-proof``).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import VertexProgram, compile_vertices
from airflow_abs.spark.proof import prove_vertices
from airflow_abs.testing.rows import describe_difference
from tests.proof.compositions import LEFT, OPERATORS, RIGHT, SELDOM, Composition, Edge, Step, split_rows

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = [pytest.mark.spark, pytest.mark.timeout(6 * 3600)]  # nightly

EXAMPLES = int(os.environ.get("AIRFLOW_ABS_COMPOSITIONS", "100"))
PARTS = 3
NUMBERS = st.integers(0, 7)
STEPS = [name for name in sorted(OPERATORS) for _ in range(1 if name in SELDOM else 5)]
LEAST_ACCEPTED = 0.1
ROWS = {
    "left": [(n % 5 or None, n % 3, "xyz"[n % 3] if n % 4 else None, n) for n in range(24)],
    "right": [(n % 4 or None, n % 2, "xyw"[n % 3], n % 6) for n in range(14)],
}
CONF = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.ansi.enabled": "false",  # text is compared with numbers: NULL, not an error
}
COLUMNS = {"left": LEFT, "right": RIGHT}


def ddl(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def hashed(*keys: int) -> Edge:
    return Edge(Partitioning.HASH, keys)


DIVIDED = [
    *[hashed(0)] * 10,
    *[hashed(0, 1)] * 2,
    *(hashed(1), hashed(2), hashed(3), hashed(1, 0), hashed(2, 0), Edge(Partitioning.REBALANCE)),
]
ANY = st.builds(Step, st.sampled_from(STEPS), NUMBERS, NUMBERS)
# By the first column of both tables, by which they are mostly hashed: else nearly everything would be refused. The
# numbers 0, 4 and 8 all choose it, and differ in the kind of join, of set operation, of derived column.
CAREFUL = st.builds(Step, st.sampled_from(STEPS), st.just(0), st.sampled_from([0, 4, 8]))
STEP = st.integers(0, 4).flatmap(lambda lot: ANY if lot == 4 else CAREFUL)
COMPOSITIONS = st.builds(
    Composition,
    st.sampled_from(DIVIDED),
    st.sampled_from([*DIVIDED, *[Edge(Partitioning.BROADCAST)] * 4]),
    st.lists(STEP, min_size=3, max_size=6).map(tuple),
)


@pytest.fixture(scope="module")
def session(connect_server: ConnectEndpoint) -> Iterator[Any]:
    from airflow_abs.spark.connect.session import open_session

    with open_session(connect_server, config=CONF) as opened:
        yield opened


def prove(session: Any, composition: Composition) -> None:
    """Compile and prove it as the one step of a job.

    Raises:
        JobGraphError: it is refused.
    """
    inputs = {"left": composition.left, "right": composition.right}
    graph = build_job_graph(
        [*(JobVertex(name, has_source=True) for name in inputs), JobVertex("step")],
        [JobEdge(name, "step", name, each.partitioning, each.names(COLUMNS[name])) for name, each in inputs.items()],
        128,
    )
    programs = {name: VertexProgram(name, None, {}, Files("/-", schema=ddl(COLUMNS[name]))) for name in inputs}
    programs["step"] = VertexProgram("step", composition, {})
    prove_vertices(session, graph, compile_vertices(session, graph, programs))


def run_in_parts(session: Any, composition: Composition, parts: int) -> Any:
    """The rows that `parts` subtasks give together."""
    dealt = {
        "left": split_rows(ROWS["left"], LEFT, composition.left, parts),
        "right": split_rows(ROWS["right"], RIGHT, composition.right, parts),
    }
    outputs = [
        composition(**{name: session.createDataFrame(dealt[name][part], ddl(COLUMNS[name])) for name in dealt})
        for part in range(parts)
    ]
    return reduce(lambda one, other: one.unionAll(other), outputs).toArrow()


def test_what_is_accepted_gives_in_parts_the_rows_of_the_whole(session: Any) -> None:
    outcomes: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(composition=COMPOSITIONS)
    def never_green_and_wrong(composition: Composition) -> None:
        outcome = try_composition(session, composition)
        outcomes[outcome] += 1
        event(outcome)

    never_green_and_wrong()
    assert set(outcomes) <= {"accepted", "refused", "Spark itself fails"}
    # A proof that refuses everything is never wrong, and this test would be none.
    assert outcomes["accepted"] > LEAST_ACCEPTED * sum(outcomes.values()), outcomes


def try_composition(session: Any, composition: Composition) -> str:
    """What became of it; fails if it is accepted and wrong, or if `plan` alone fails on it."""
    from pyspark.errors import PySparkException

    try:
        prove(session, composition)
    except JobGraphError as error:
        return "refused" if "vertex 'step'" in str(error) else f"refused without a name: {error}"
    except PySparkException:
        with pytest.raises(PySparkException):  # Spark's optimizer has bugs of its own
            run_in_parts(session, composition, 1)
        return "Spark itself fails"
    whole = run_in_parts(session, composition, 1)
    assert describe_difference(run_in_parts(session, composition, PARTS), whole) is None
    return "accepted"


def test_a_wrong_acceptance_would_be_seen(session: Any) -> None:
    by_b = Edge(Partitioning.HASH, (1,))
    wrong = Composition(Edge(Partitioning.HASH, (0,)), by_b, (Step("group", 2, 2), Step("semi_join", 0, 2)))
    assert describe_difference(run_in_parts(session, wrong, PARTS), run_in_parts(session, wrong, 1)) is not None
    with pytest.raises(JobGraphError, match="vertex 'step'"):
        prove(session, wrong)
