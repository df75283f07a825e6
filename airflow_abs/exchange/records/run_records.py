"""The records of a run, as a task that looks at the whole run reads them: each once."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property

from airflow_abs.exchange.errors import StoredFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.decisions import StoredDecision, read_decision_and_digest
from airflow_abs.exchange.records.manifest import Manifest, list_tags, read_manifest, read_manifests
from airflow_abs.exchange.records.plan import JobPlan, read_plan
from airflow_abs.exchange.sources.pinned import PinnedFiles, read_pinned
from airflow_abs.exchange.storage.locations import locate

FEW = 4
"""Up to this many manifests are read one by one, which takes fewer requests than listing their region."""


class RunRecords:
    """Each record is read when it is first asked for, and is then what it was: `decide` and `commit` judge and act on
    the same content. A caller that waits for others reads again. For one thread.

    Args:
        folder: of the run's job.
    """

    def __init__(self, folder: JobFolder) -> None:
        self.folder = folder
        self._decisions: dict[str, tuple[StoredDecision, str]] = {}
        self._manifests: dict[tuple[str, str], list[Manifest]] = {}
        self._tags: dict[str, dict[int, str]] = {}
        self._pinned: dict[tuple[str, str], PinnedFiles] = {}

    @cached_property
    def plan(self) -> JobPlan:
        """Errors as `read_plan`."""
        return read_plan(self.folder)

    def decision(self, region: str) -> StoredDecision:
        """Errors as `read_decision`."""
        return self._decision(region)[0]

    def digest(self, region: str) -> str:
        """Of its decision."""
        return self._decision(region)[1]

    def subtasks(self, region: str) -> int:
        """How many a region has, by its decision."""
        return self.decision(region).decision.parallelism

    def manifests(self, region: str, *, decision: str | None = None) -> list[Manifest]:
        """Those of all subtasks of a region, in order.

        Args:
            decision: the digest under which they are expected to have run; else that which is stored.

        Raises:
            ExchangeError: as `read_decision`, `read_manifests`.
        """
        digest = self.digest(region) if decision is None else decision
        if (region, digest) not in self._manifests:
            count = self.subtasks(region)
            self._tags[region] = self._list_tags(region)  # before they are read: what changes since has another
            self._manifests[region, digest] = read_manifests(self.folder, region, count, decision=digest)
        return self._manifests[region, digest]

    def renewals(self, region: str) -> int:
        """How often other rows have taken the place of its rows in the run: more with every such change, also after a
        decision for fewer subtasks. 0 of a region that is repeatable.

        Raises:
            ExchangeError: as `manifests`.
        """
        if region not in self.plan.unrepeatable:
            return 0
        found = list(self.manifests(region))
        with suppress(StoredFileError):
            while True:  # behind the last one are those of an earlier, wider decision
                found.append(read_manifest(self.folder, region, len(found)))
        return sum(each.renewals for each in found)

    def tags(self, region: str) -> dict[int, str]:
        """What an object store says of the content of the `manifests`, by index; {} where that spares nothing."""
        self.manifests(region)
        return self._tags[region]

    def pinned(self, region: str, vertex: str) -> PinnedFiles:
        """What `plan` listed of a vertex' table or incremental source; errors as `read_pinned`."""
        if (region, vertex) not in self._pinned:
            self._pinned[region, vertex] = read_pinned(self.folder, region, vertex)
        return self._pinned[region, vertex]

    def _decision(self, region: str) -> tuple[StoredDecision, str]:
        if region not in self._decisions:
            self._decisions[region] = read_decision_and_digest(self.folder, region)
        return self._decisions[region]

    def _list_tags(self, region: str) -> dict[int, str]:
        count = self.subtasks(region)
        if count <= FEW or locate(self.folder.path).is_local:
            return {}
        return list_tags(self.folder, region, count)
