"""How `make test` deals the tests out to its processes: what shares services together, what takes long first.

Whoever is done takes the next group. Tests of a group run one after the other in one process, so that an Airflow that
they share is started once, and is gone after the last of them.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
from xdist.scheduler import LoadScopeScheduling

# Longest first, and those that mostly wait for services beside those that compute. All others follow, file by file.
# What each took is printed at the end of a run.
FIRST = (
    ("tests/services/",),
    ("tests/proof/test_corpus.py",),
    ("tests/faults/",),
    ("tests/proof/test_compositions.py",),
    ("tests/services/test_demo.py", "tests/test_wheel.py"),  # of the installed wheel
    ("tests/testbed/test_cluster.py",),
    ("tests/proof/test_queries.py",),
    ("tests/test_example_dags.py",),
)
_RANKS = {place: rank for rank, places in enumerate(FIRST) for place in places}
SHOWN = 20


def rank_of(test: str) -> int:
    """Where the group of a test comes, by the test's id: that of the longest place which is its own."""
    places = [place for place in _RANKS if test.startswith(place)]
    return _RANKS[max(places, key=len)] if places else len(FIRST)


def group_of(test: str) -> str:
    """The name of its group: one of `FIRST`, else its file."""
    rank = rank_of(test)
    return " ".join(FIRST[rank]) if rank < len(FIRST) else test.partition("::")[0]


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Hands out groups, in the order in which their tests were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


class Seconds:
    """A plugin: what each process and each group took, with starting and ending what they use."""

    def __init__(self) -> None:
        self._of_groups: defaultdict[str, float] = defaultdict(float)
        self._of_processes: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._of_groups[group_of(report.nodeid)] += report.duration
        if node := getattr(report, "node", None):
            self._of_processes[node.gateway.id] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._of_processes:
            terminalreporter.section("seconds of processes and groups")
            groups = sorted(self._of_groups.items(), key=lambda group: -group[1])[:SHOWN]
            for name, seconds in [*sorted(self._of_processes.items()), *groups]:
                terminalreporter.write_line(f"{seconds:7.0f}  {name}")
