"""Whether a run publishes to a partition that it has read from; `commit` looks at it before anything is published.

`plan` compares the folders of sources and sinks. Which partitions of a folder a run writes is known only now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from airflow_abs.exchange.errors import CommitError, MissingFileError
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.sources.folders import folders_of
from airflow_abs.exchange.sources.planned_source import vertex_of


def check_partitions_read(records: RunRecords, target: str, partitions: Collection[str]) -> None:
    """See that none of the run's sources has a file in one of them.

    Args:
        records: of the run.
        target: the folder of a sink.
        partitions: below it, to which the run is about to publish, such as ``day=2026-01-01``.

    Raises:
        CommitError: names the partition and the vertex.
        ExchangeError: a record cannot be read.
    """
    written = {
        folder.parts: (folder, partition)
        for partition in sorted(partitions)
        for folder in folders_of(f"{target.rstrip('/')}/{partition}", follow_links=True)
    }
    for vertex, path in _read_from(records):
        for read in folders_of(path, follow_links=True):
            folder, partition = written.get(read.parts, (None, ""))
            if folder is not None and folder.is_same(read):
                raise CommitError(
                    f"sink {target}: the run would publish to {partition}, which its vertex {vertex!r} has read: "
                    "it would delete its input, or read its own output when it is repeated; nothing was "
                    "published. Read partitions that the run does not write, or publish to another folder"
                )


def _read_from(records: RunRecords) -> Iterator[tuple[str, str]]:
    """The vertices with the folders of the files that they read, each once."""
    for region in records.plan.regions:
        try:
            files = records.decision(region.name).files if region.sources else {}
        except MissingFileError:  # it has read nothing yet
            continue
        for source, listed in files.items():
            for path in sorted({file.path.rpartition("/")[0] for file in listed}):
                yield vertex_of(source), path
