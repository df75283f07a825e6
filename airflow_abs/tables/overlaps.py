"""No run reads or deletes what it publishes, and no two sinks delete each other's output.

Refused are, in one job: a sink in the folder of a source, or one that replaces a folder in which there is a source; a
table that is read as it is now and published to (a run that is repeated would read what it published itself); sinks
that are one place or lie one inside the other; a sink that holds the exchange or lies in it. Of two jobs of a DAG:
sinks that would replace each other's files.
What stays possible: to publish some partitions and read others, or a version that the author names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.folders import Folder, folders_of
from airflow_abs.tables.catalog_table import Table
from airflow_abs.tables.source import Pin
from airflow_abs.tables.table_arguments import is_given

_PUBLISHED = "part-00000-0.parquet"
"""Such files are published."""


@dataclass(frozen=True, slots=True)
class DeclaredJob:
    """What a job reads and writes, sources and sinks by vertex."""

    job: str
    exchange: object
    sources: Mapping[str, Any]
    sinks: Mapping[str, Any]


def check_overlaps(job: DeclaredJob, others: Iterable[DeclaredJob] = (), *, is_rendered: bool = False) -> None:
    """Compare all that can be compared: what is templated has a place only once it is rendered.

    Args:
        job: whose it is.
        others: of its DAG.
        is_rendered: whether the templates are; then links of the local file system are followed, too.

    Raises:
        JobGraphError: names both places and what to write instead.
    """
    sinks = [_Used(vertex, sink, is_rendered) for vertex, sink in job.sinks.items()]
    sources = [_Used(vertex, source, is_rendered) for vertex, source in job.sources.items()]
    for one, other in combinations(sinks, 2):
        if (how := _how_they_meet(one, other)) is not None:
            raise _one_place(one, other, how)
    for sink, source in product(sinks, sources):
        _check_source(sink, source)
    for sink in sinks:
        _check_exchange(sink, job.exchange)
    for theirs in others:
        _check_other_job(sinks, theirs, is_rendered)


def check_tables(job: DeclaredJob, tables: Mapping[str, TargetTable], pins: Mapping[str, Pin]) -> None:
    """The same for what only catalogs, servers and logs know.

    Args:
        job: rendered.
        tables, pins: of its sinks and of its sources, by vertex.

    Raises:
        JobGraphError: see `check_overlaps`.
    """
    check_same_tables(
        job, {name: table.ids for name, table in tables.items()}, {name: pin.ids for name, pin in pins.items()}
    )
    files = {name: [file.path for file in pin.files] for name, pin in pins.items()}
    check_read_files(job, files)
    for name, table in tables.items():
        of_others = {reader: paths for reader, paths in files.items() if not pins[reader].ids & table.ids}
        check_table_folder(job, name, table.folder, of_others)


def check_same_tables(
    job: DeclaredJob, written: Mapping[str, frozenset[str]], read: Mapping[str, frozenset[str]]
) -> None:
    """The same for tables that only their catalog knows to be one, whatever they are called.

    Args:
        job: rendered.
        written, read: the ids of all tables to which rows of its sinks go, and whose rows its sources read, by vertex.

    Raises:
        JobGraphError: see `check_overlaps`.
    """
    for (vertex, targets), (reader, tables) in product(written.items(), read.items()):
        sink, source = _Used(vertex, job.sinks[vertex]), _Used(reader, job.sources[reader])
        if targets & tables and _would_read_its_own(sink, source):
            raise _same_table(sink, source)


def check_read_files(job: DeclaredJob, files: Mapping[str, Iterable[str]]) -> None:
    """The same for tables whose folder only their catalog or their log knows.

    Args:
        job: rendered.
        files: the paths of what the sources have pinned, by vertex.

    Raises:
        JobGraphError: see `check_overlaps`.
    """
    for reader, paths in files.items():
        read = [folder for parent in _parents(paths) for folder in folders_of(parent, follow_links=True)]
        for vertex, declared in job.sinks.items():
            _check_folders(_Used(vertex, declared), _Used(reader, job.sources[reader]), read)


def check_table_folder(job: DeclaredJob, vertex: str, path: str, files: Mapping[str, Iterable[str]]) -> None:
    """No files of a table are read behind its back by a job that publishes to it, nor published among them.

    Args:
        job: rendered.
        vertex: whose sink is the table.
        path: the folder of the table; empty for none.
        files: the paths of what sources have pinned of other tables, by vertex.

    Raises:
        JobGraphError: see `check_overlaps`.
    """
    folders = folders_of(path, follow_links=True) if path else []
    for reader, source in job.sources.items():
        read = [each for parent in _parents(files.get(reader, ())) for each in folders_of(parent, follow_links=True)]
        if isinstance(source, Files):
            read += folders_of(source.path, is_source=True, follow_links=True)
        if any(one.contains(other) or other.contains(one) for one, other in product(folders, read)):
            raise _behind_the_table(_Used(vertex, job.sinks[vertex]), _Used(reader, source), path)
    for name, sink in job.sinks.items():
        among = folders_of(sink.path, follow_links=True) if isinstance(sink, Files) else []
        if any(one.contains(other) or other.contains(one) for one, other in product(folders, among)):
            raise _one_place(_Used(vertex, job.sinks[vertex]), _Used(name, sink), f"both publish to {path}")


def _parents(paths: Iterable[str]) -> list[str]:
    return sorted({path.rpartition("/")[0] for path in paths})


@dataclass(frozen=True, slots=True)
class _Used:
    """A source or a sink, and whose it is."""

    vertex: str
    declared: Any
    is_rendered: bool = True
    job: str = ""

    @property
    def replaces_all(self) -> bool:
        """Not only partitions, or the rows that a condition names."""
        return getattr(self.declared, "mode", None) == "overwrite" and getattr(self.declared, "where", None) is None

    def folders(self, *, is_source: bool = False) -> list[Folder]:
        """Where its files lie, if that is what it is declared by: the `path` of `Files`, and of any kind of table."""
        is_source = is_source and isinstance(self.declared, Files)
        return folders_of(getattr(self.declared, "path", None), is_source=is_source, follow_links=self.is_rendered)

    def is_table_of(self, other: _Used) -> bool:
        """By kind, name and connection."""
        one, two = self.declared, other.declared
        if isinstance(one, Files) or type(one) is not type(two) or getattr(two, "query", None) is not None:
            return False
        uri = _uri_of(one)
        return (
            uri is not None and uri == _uri_of(two) and getattr(one, "conn_id", None) == getattr(two, "conn_id", None)
        )

    def __str__(self) -> str:
        names = (getattr(self.declared, name, None) for name in ("path", "table", "name"))
        place = next((str(name) for name in names if name is not None), type(self.declared).__name__)
        return f"{self.vertex!r}{f' of job {self.job!r}' if self.job else ''} ({place})"


def _uri_of(declared: Any) -> str | None:
    """Of a table; Spark's catalog does not care for case, and its own name may be left out."""
    uri: str | None = getattr(declared, "asset_uri", None)
    return uri.lower().replace("://spark_catalog.", "://", 1) if uri and isinstance(declared, Table) else uri


def _how_they_meet(one: _Used, other: _Used) -> str | None:
    if one.is_table_of(other):
        return "are the same"
    for first, second in product(one.folders(), other.folders()):
        if first.is_same(second):
            return "are the same"
        if first.contains(second) or second.contains(first):
            return "lie one inside the other"
    return None


def _one_place(one: _Used, other: _Used, how: str) -> JobGraphError:
    return JobGraphError(
        f"the sinks of vertices {one} and {other} {how}; each would replace what the other publishes: give each sink a "
        "folder or a table of its own"
    )


def _check_other_job(sinks: Iterable[_Used], theirs: DeclaredJob, is_rendered: bool) -> None:
    """Two jobs may publish to one place, one after the other, if each keeps what the other has there."""
    for sink in sinks:
        _check_exchange(sink, theirs.exchange)
        for vertex, declared in theirs.sinks.items():
            other = _Used(vertex, declared, is_rendered, theirs.job)
            how = _how_they_meet(sink, other)
            if how == "are the same" and not sink.replaces_all and not other.replaces_all:
                continue
            if how is not None:
                raise _one_place(sink, other, how)


def _check_exchange(sink: _Used, exchange: object) -> None:
    roots = folders_of(exchange, follow_links=sink.is_rendered)
    if any(folder.contains(root) or root.contains(folder) for folder, root in product(sink.folders(), roots)):
        raise JobGraphError(
            f"the sink of vertex {sink} is, contains or lies inside the exchange ({exchange}), whose files belong to "
            "runs that are under way; give the sink a folder of its own"
        )


def _check_source(sink: _Used, source: _Used) -> None:
    if sink.is_table_of(source) and _would_read_its_own(sink, source):
        raise _same_table(sink, source)
    _check_folders(sink, source, source.folders(is_source=True))


def _check_folders(sink: _Used, source: _Used, folders: Iterable[Folder]) -> None:
    if not isinstance(sink.declared, Files):
        return
    reads_a_part = bool(getattr(source.declared, "prune", None))
    for folder, read in product(sink.folders(), folders):
        # of partitions below it only those that the run writes are replaced: `commit` compares them with what was read
        has_no_partitions = not sink.declared.partition_by
        lands_in_read = read.contains(folder) or (has_no_partitions and read.holds_files(folder, _PUBLISHED))
        if (sink.replaces_all and folder.contains(read)) or (lands_in_read and not reads_a_part):
            raise JobGraphError(
                f"the sink of vertex {sink} is, contains or lies inside what vertex {source} reads: the run would "
                "delete its input, or read its own output when it is repeated. Publish to a folder beside "
                "it, or to a partition ('.../ds={{ ds }}') and read others ('.../ds={{ macros.ds_add(ds, -1) }}')"
            )


def _same_table(sink: _Used, source: _Used) -> JobGraphError:
    return JobGraphError(
        f"the sink of vertex {sink} is the table that vertex {source} reads: a repeated run would read its own "
        "output. Read a version that you name (snapshot= or version=), or rows that the run does not "
        "publish (where= of the source), or publish to another table"
    )


def _behind_the_table(sink: _Used, source: _Used, folder: str) -> JobGraphError:
    return JobGraphError(
        f"the sink of vertex {sink} is a table whose files lie in {folder}, and vertex {source} reads files there: a "
        "repeated run would read its own output. Read the table itself, a version that you name (snapshot= "
        "or version=) or rows that the run does not publish (where= of the source), or publish to another table"
    )


def _would_read_its_own(sink: _Used, source: _Used) -> bool:
    named = (getattr(source.declared, name, None) for name in ("snapshot", "version"))
    if any(map(is_given, named)):
        return False
    reads_a_part = getattr(source.declared, "where", None) or getattr(source.declared, "prune", None)
    return sink.replaces_all or not reads_a_part
