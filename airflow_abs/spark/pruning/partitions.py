"""Leaves out partitions of sources that no row is read from: Spark's optimiser finds the filters, `plan` applies them.

Each template that reads a source is optimised once (`EXPLAIN`) over one file of it, which tells Spark the partition
columns. The filters that it would prune with come back as text; those that can be read for certain are put to Spark
again, over a local table of the partitions' values. A partition is left out if no scan of the source can give a row of
it; when in doubt it stays, and the transform's own filter does the rest.

Every filter that cannot be read for certain (`filters`) is ignored, and prunes no partition.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.sql_names import quote
from airflow_abs.exchange.errors import SourceNotFoundError
from airflow_abs.exchange.records.plan import PlannedRegion
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.partitions import partition_of, partition_values
from airflow_abs.exchange.sources.planned_source import PlannedSource
from airflow_abs.exchange.sources.splits import reads_in_order
from airflow_abs.spark.compile.contracts import set_conf
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.proof.explained import UnreadablePlanError, read_plan
from airflow_abs.spark.proof.markers import CONF
from airflow_abs.spark.proof.proof_copy import proof_copy
from airflow_abs.spark.proof.prove import set_for_proof
from airflow_abs.spark.pruning.filters import is_plain, read_filters, type_in_sql
from airflow_abs.spark.relations import Relation
from airflow_abs.spark.source_files import read_source
from airflow_abs.spark.template import find_placeholders, names_metadata, relations_in

log = logging.getLogger(__name__)

_LISTS_IN_PARENTHESES = {"spark.sql.optimizer.inSetConversionThreshold": "1000000"}
_FILTERING = frozenset({"filter", "sql"})


def prune_sources(
    session: Any,
    region: PlannedRegion,
    templates: Sequence[bytes],
    list_today: Callable[[PlannedSource], Sequence[SourceFile]],
) -> PlannedRegion:
    """The region with `left_out` of each of its sources.

    Args:
        session: a Connect session; some of its settings are others for the time of this.
        region: as planned.
        templates: of its steps, serialised.
        list_today: the files of a source; raises as `list_splits`.

    Raises:
        JobGraphError: a transform reads `_metadata` of a source whose columns are declared in an order of their own.
        ExchangeError: the storage refuses to list; partition folders lie below a glob.
    """
    if not region.sources:
        return region
    relations = [_parsed(template) for template in templates]
    return replace(
        region,
        sources=tuple(_pruned(session, region, source, relations, list_today) for source in region.sources),
    )


def _pruned(
    session: Any,
    region: PlannedRegion,
    source: PlannedSource,
    relations: Iterable[Relation],
    list_today: Callable[[PlannedSource], Sequence[SourceFile]],
) -> PlannedSource:
    files = source.files
    if files is None:  # a table was asked for its files with the condition that was declared
        return source
    reading = [relation for relation in relations if source.placeholder in find_placeholders(relation)]
    filtered = all(any(each.WhichOneof("rel_type") in _FILTERING for each in relations_in(one)) for one in reading)
    reads_metadata = any(map(names_metadata, reading))
    if not filtered and not reads_metadata:
        return source
    try:
        listed = list_today(source)
    except SourceNotFoundError:
        return source  # `decide` says so, on the day's files
    if reads_metadata and not reads_in_order(files, source.columns, listed):
        raise JobGraphError(
            f"source {source.name}: the transform reads _metadata, which Spark has only where it gives the columns as "
            f"they are declared ({', '.join(source.columns)}), and it puts those of partition folders last; declare "
            "them last, in the order of the folders"
        )
    partitions = _Partitions.of(source, files, listed) if filtered else None
    if partitions is None:
        return source
    with ExitStack() as settings:
        settings.enter_context(set_for_proof(session))
        own = {key: value for key, value in region.spark_conf.items() if key not in CONF}
        settings.enter_context(set_conf(session, region.name, own | _LISTS_IN_PARENTHESES))
        scans = [filters for relation in reading for filters in partitions.find_filters(session, relation)]
        left_out = partitions.without_rows(session, scans) if all(scans) and scans else ()
    if left_out:
        log.info("source %s: %d of %d partitions are left out", source.name, len(left_out), len(partitions.names))
    return replace(source, left_out=left_out)


@dataclass(frozen=True, slots=True)
class _Partitions:
    """The partitions of a source today, as folders and as values by column; one file of it stands for all."""

    source: PlannedSource
    file: SourceFile
    types: Mapping[str, str]
    names: Mapping[str, Mapping[str, str | None]]

    @classmethod
    def of(cls, source: PlannedSource, declared: Files, files: Sequence[SourceFile]) -> _Partitions | None:
        """None if its files do not all lie in partitions by the same columns, of types that are compared as text."""
        folders = {partition_of(declared, file.path) for file in files}
        names = {folder: partition_values(folder) for folder in folders if folder}
        columns = {tuple(values) for values in names.values()}
        if len(names) < len(folders) or len(columns) != 1:
            return None
        fields = {field["name"]: field for field in json.loads(source.schema)["fields"]}
        types = {
            name: fields[name]["type"]
            for (wanted,) in [columns]
            for name in wanted
            if name in fields and not fields[name]["metadata"]  # a collation, for example
        }
        known = {name: kind for name, kind in types.items() if isinstance(kind, str) and type_in_sql(kind)}
        return cls(source, files[0], known, dict(sorted(names.items()))) if known else None

    def find_filters(self, session: Any, relation: Relation) -> list[list[str]]:
        """For each scan of the source in a template the filters that hold for its rows; one without any is `[]`."""
        stand_in = {self.source.placeholder: lambda: read_source(self.source, [self.file])}
        plan = protos().Plan()
        plan.root.CopyFrom(proof_copy(relation, stand_in, {}))
        try:
            operators = read_plan(session.client.explain_string(plan, "formatted")).operators()
        except UnreadablePlanError:
            return [[]]
        place = f"InMemoryFileIndex [{self.file.path.replace(':///', ':/', 1)}]"
        return [
            read_filters(operator.detail("PartitionFilters"), self.types)
            for operator in operators
            if operator.detail("Location") == place
        ]

    def without_rows(self, session: Any, scans: Iterable[Sequence[str]]) -> tuple[str, ...]:
        """The partitions from which no scan returns a row: each scan has a filter that does not hold there."""
        from pyspark.errors import PySparkException

        folders = list(self.names)
        columns = list(self.types)
        rows = [(number, *(self.names[folder][name] for name in columns)) for number, folder in enumerate(folders)]
        raw = {name: quote(f"_text of {name}") for name in columns}
        typed = [f"try_cast({raw[name]} AS {type_in_sql(kind)}) AS {quote(name)}" for name, kind in self.types.items()]
        condition = " OR ".join(f"({' AND '.join(filters)})" for filters in scans)
        sure = " AND ".join(f"({raw[name]} IS NULL OR {quote(name)} IS NOT NULL)" for name in columns)
        schema = ", ".join(["_number BIGINT", *(f"{name} STRING" for name in raw.values())])
        table = session.createDataFrame(rows, schema).selectExpr("*", *typed)
        try:
            found = table.where(f"NOT coalesce({condition}, false) AND {sure}").select("_number").collect()
        except PySparkException:
            return ()  # a cast that fails: so it will in a subtask, which says so
        plain = {folder for folder, values in self.names.items() if all(map(is_plain, filter(None, values.values())))}
        return tuple(folders[row[0]] for row in found if folders[row[0]] in plain)


def _parsed(template: bytes) -> Relation:
    relation = protos().Relation()
    relation.ParseFromString(template)
    return relation
