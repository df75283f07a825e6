"""Queries as plain steps: read from files, declared as one job without any edge, compared with DuckDB's answer.

A file holds one query: its steps, in SQL over ``{tables}`` and ``{earlier steps}``, as an author would write them
(``one subtask`` is parallelism=1), and the query as a whole, for DuckDB. ORDER BY stands only where a LIMIT needs it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import VertexProgram
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.run.attempt import release_sessions
from airflow_abs.testing.corpus_bench.runner import OPTIONS
from airflow_abs.testing.job_run import JobRun
from airflow_abs.testing.rows import describe_difference
from airflow_abs.testing.tables import write_table
from tests.job_runner import program_of

# Small tables are broadcast and the others are not, at a scale where Spark's own 10 MB would broadcast all.
CONF = {"spark.sql.autoBroadcastJoinThreshold": "40k"}
_PART = re.compile(r"^--- (step (?P<step>\w+)(?P<alone> one subtask)?|whole)\n", re.MULTILINE)
_INPUT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class QueryStep:
    """One vertex; `alone`: it is one subtask, as the author says."""

    name: str
    sql: str
    alone: bool

    @property
    def inputs(self) -> list[str]:
        return list(dict.fromkeys(_INPUT.findall(self.sql)))


@dataclass(frozen=True, slots=True)
class Query:
    """`whole` is in DuckDB's SQL; the last step gives the same columns."""

    name: str
    steps: tuple[QueryStep, ...]
    whole: str

    @property
    def result(self) -> str:
        """The vertex that gives the query's rows."""
        return self.vertex(self.steps[-1].name)

    def vertex(self, name: str) -> str:
        """A step of the query, or else a table."""
        return f"{self.name}_{name}" if any(step.name == name for step in self.steps) else name


def read_queries(folder: Path) -> list[Query]:
    """All queries of a folder, by name."""
    return [_read_query(path) for path in sorted(folder.glob("*.sql"))]


def _read_query(path: Path) -> Query:
    text = path.read_text()
    found = list(_PART.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    bodies = [text[match.end() : end].strip() for match, end in zip(found, ends, strict=True)]
    assert found[-1]["step"] is None, f"{path.name}: expected the whole query at its end"
    steps = tuple(
        QueryStep(match["step"], body, bool(match["alone"])) for match, body in zip(found[:-1], bodies, strict=False)
    )
    return Query(path.stem, steps, bodies[-1])


@dataclass(frozen=True, slots=True)
class QueryBench:
    """Tables as folders of Parquet files below `folder`, and a server."""

    endpoint: ConnectEndpoint
    folder: Path

    @classmethod
    def prepare(cls, endpoint: ConnectEndpoint, folder: Path, tables: Mapping[str, Any]) -> QueryBench:
        for name, table in tables.items():
            write_table(table, folder / "tables" / name)
        return cls(endpoint, folder)

    def plan(self, queries: Sequence[Query]) -> JobRun:
        """One job of all queries, whose tables have been read."""
        graph, programs = self._declare(queries)
        run = JobFolder(self.folder / "exchange", "queries", "planned", "queries")
        planned = JobRun.planned(self.endpoint, run, graph, programs, OPTIONS)
        for vertex in graph.vertices:
            if vertex.has_source:
                asyncio.run(planned.run_region(vertex.name))
        return planned

    def run(self, planned: JobRun, parallelism: int) -> dict[str, Any]:
        """The rows of every vertex.

        Raises:
            Exception: of the first region that failed.
        """
        run = planned.at_parallelism(f"at-{parallelism}", parallelism)
        failed = asyncio.run(run.run_regions())
        try:
            for error in failed.values():
                raise error
            with open_session(self.endpoint) as session:
                return {name: rows for name, (rows, _) in run.read_vertices(session).items()}
        finally:
            asyncio.run(release_sessions(self.endpoint, run.folder))

    def expect(self, queries: Sequence[Query]) -> dict[str, Any]:
        """DuckDB's rows, by query."""
        import duckdb

        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for table in sorted((self.folder / "tables").iterdir()):
                connection.execute(f"CREATE VIEW {table.name} AS SELECT * FROM '{table}/*.parquet'")
            return {query.name: connection.sql(query.whole).to_arrow_table() for query in queries}

    def _declare(self, queries: Sequence[Query]) -> tuple[JobGraph, dict[str, VertexProgram]]:
        edges = [edge for query in queries for edge in _edges(query)]
        steps = {query.vertex(step.name): step for query in queries for step in query.steps}
        tables = sorted({edge.producer for edge in edges} - set(steps))
        vertices = [JobVertex(name, has_source=True) for name in tables]
        vertices += [JobVertex(name, parallelism=1 if step.alone else None) for name, step in steps.items()]
        programs = {
            name: program_of(name, None, {}, Files(str(self.folder / "tables" / name)), spark_conf=CONF)
            for name in tables
        }
        programs |= {name: program_of(name, None, {}, sql=step.sql, spark_conf=CONF) for name, step in steps.items()}
        return build_job_graph(vertices, edges, OPTIONS.max_parallelism), programs


def _edges(query: Query) -> Iterator[JobEdge]:
    for step in query.steps:
        for name in step.inputs:
            yield JobEdge(query.vertex(name), query.vertex(step.name), name, Partitioning.INFERRED)


def describe_answer(found: Any, expected: Any) -> str | None:
    """What is wrong with a query's rows; None if nothing is.

    Numbers are compared as such: the two engines give sums and quotients other types. An empty answer, or a column
    that is NULL in all rows, would show nothing.
    """
    if not expected.num_rows:
        return "DuckDB gives no row"
    nothing = [name for name in expected.column_names if expected[name].null_count == expected.num_rows]
    return f"DuckDB gives NULL only for {nothing}" if nothing else describe_difference(_plain(found), _plain(expected))


def _plain(table: Any) -> Any:
    """All numbers as doubles."""
    import pyarrow as pa
    from pyarrow import types

    def plain(kind: Any) -> Any:
        return pa.float64() if types.is_integer(kind) or types.is_decimal(kind) or types.is_floating(kind) else kind

    return table.cast(pa.schema([(field.name, plain(field.type)) for field in table.schema]))
