"""What a transform of the corpus shows of the proof: the physical operators of its plan, or why it is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from airflow_abs.core.errors import JobGraphError
from airflow_abs.spark.proof.explained import PhysicalPlan
from airflow_abs.spark.proof.prover import Prover
from airflow_abs.spark.proof.refusals import Refusal

_OF_THE_ENTRY = re.compile(r"( on \S+ = .*| after \w+\(.*| \(.*\))$")


def reason_of(error: JobGraphError) -> str:
    """What is refused, without what is the entry's own: columns, lines, what its edges give."""
    if isinstance(error.__cause__, Refusal):
        return _OF_THE_ENTRY.sub("", error.__cause__.what)
    reason = str(error).partition("'")[2].partition("'")[2].removeprefix(": ")
    return re.split(r" \(| in |[;']", reason)[0].strip()


@contextmanager
def operators_noted() -> Iterator[Mapping[str, frozenset[str]]]:
    """The operators of every plan that is asked for meanwhile, by vertex, such as ``SortMergeJoin Inner``."""
    noted: dict[str, frozenset[str]] = {}
    plan = Prover.plan

    def noting(prover: Prover, name: str) -> PhysicalPlan:
        found = plan(prover, name)
        noted[name] = frozenset(operator.name.strip() for operator in found.operators())
        return found

    with patch.object(Prover, "plan", noting):
        yield noted
