"""What a job read and published, as OpenLineage datasets; only if Airflow's OpenLineage provider is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publication import Publication
from airflow_abs.exchange.records.plan import JobPlan
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.runs.run_view import RegionView
from airflow_abs.exchange.sources.planned_source import PlannedSource
from airflow_abs.exchange.storage.locations import S3_SCHEMES
from airflow_abs.exchange.storage.uris import without_connection

if TYPE_CHECKING:
    from airflow.sdk import Context

_OF_EVERY_SINK = {"expectations", *(field.name for field in fields(Publication))}


def read_lineage(folder: JobFolder, region: str, published: Mapping[str, Mapping[str, Any]]) -> Any:
    """Sources that a region's sinks come from, and the sinks with their rows and bytes, as an `OperatorLineage`. Each
    has its columns; tables also have the version that was read or created, sinks the source columns of theirs.

    Args:
        published: what `commit` returned.
    """
    from airflow.providers.common.compat.openlineage.facet import (
        Dataset,
        OutputDataset,
        OutputStatisticsOutputDatasetFacet,
    )
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.facet_v2 import dataset_version_dataset, schema_dataset

    run = read_run(folder)
    own = run.region(region)

    def facets(version: str, schema: str) -> dict[str, Any]:
        made = {"version": dataset_version_dataset.DatasetVersionDatasetFacet(version)} if version else {}
        return {"schema": schema_dataset.SchemaDatasetFacet(_fields(json.loads(schema))), **made}

    found = sorted(sources_of(run.plan, region).items())
    inputs = [Dataset(*name, facets=facets(source.version, source.schema)) for name, source in found]
    outputs = []
    for sink in own.planned.sinks:
        rows, size, files = written(own, sink.result)
        statistics = OutputStatisticsOutputDatasetFacet(rowCount=rows, size=size, fileCount=files)
        name = split_table(sink.label) if sink.table is not None else split_uri(sink.label)
        made = facets(version_made(published.get(sink.vertex, {})), own.planned.step(sink.result).schema)
        made |= _column_lineage(run.plan, sink.vertex)
        outputs.append(OutputDataset(*name, facets=made, outputFacets={"outputStatistics": statistics}))
    return OperatorLineage(inputs=inputs, outputs=outputs)


def with_parent_job(settings: Mapping[str, str], context: Context) -> dict[str, str]:
    """Settings of a run's own Spark, which name its task and DAG run to the OpenLineage listener there, if Airflow's
    ``[openlineage] spark_inject_parent_job_info`` asks for it; what they name already stays."""
    from airflow_abs.airflow_abilities import conf

    if not conf.getboolean("openlineage", "spark_inject_parent_job_info", fallback=False):
        return dict(settings)
    from airflow.providers.common.compat.openlineage.utils.spark import (
        inject_parent_job_information_into_spark_properties,
    )

    told: dict[str, str] = inject_parent_job_information_into_spark_properties(dict(settings), context)
    return told


@dataclass(frozen=True, slots=True)
class ReadSource:
    """What a run reads of a dataset: its version ("" for files) and its columns, in Spark's JSON form."""

    version: str
    schema: str


def sources_of(plan: JobPlan, region: str) -> dict[tuple[str, str], ReadSource]:
    """All sources that the region's rows come from, also through other regions, by namespace and name.

    A table is in the namespace of its catalog.
    """
    planned = plan.region(region)
    found: dict[tuple[str, str], ReadSource] = {}
    for source in planned.sources:
        version = source.table.version if source.table is not None else ""
        found[_name_of(source)] = ReadSource(version, source.schema)
    for entry in planned.inputs:
        found |= sources_of(plan, entry.region)
    return found


def _name_of(source: PlannedSource) -> tuple[str, str]:
    """Its namespace and name."""
    if source.files is not None:
        return split_uri(source.files.path)
    assert source.table is not None  # noqa: S101
    return split_table(source.table.table)


def _column_lineage(plan: JobPlan, vertex: str) -> dict[str, Any]:
    """The facet of a vertex' sink; none if no column's sources are known."""
    from openlineage.client.facet_v2 import column_lineage_dataset as facet

    names = {source.name: _name_of(source) for region in plan.regions for source in region.sources}
    described = {
        column: facet.Fields([facet.InputField(*names[each.source], each.column) for each in sources])
        for column, sources in plan.column_sources.get(vertex, {}).items()
        if sources
    }
    return {"columnLineage": facet.ColumnLineageDatasetFacet(described)} if described else {}


def version_made(published: Mapping[str, Any]) -> str:
    """``snapshot 7041``, in the words of the table's kind; "" for files, and where it is unknown."""
    own = {name: value for name, value in published.items() if name not in _OF_EVERY_SINK and value is not None}
    return ", ".join(f"{name} {value}" for name, value in own.items())


def split_table(name: str) -> tuple[str, str]:
    """``lake.sales.orders`` is ``lake`` and ``sales.orders``; a table that is named by its path is where that leads."""
    if "/" in name:
        return split_uri(name)
    catalog, _, table = name.partition(".")
    return catalog, table


def written(region: RegionView, result: str) -> tuple[int, int, int]:
    """Rows, bytes and files of one result over all subtasks."""
    found = [manifest.results[result] for manifest in region.manifests.values() if result in manifest.results]
    return sum(each.rows for each in found), sum(each.bytes for each in found), sum(len(each.files) for each in found)


def split_uri(path: str) -> tuple[str, str]:
    """OpenLineage's namespace and name: ``s3://lake/orders`` is ``s3://lake`` and ``orders``, a local path ``file``."""
    parts = urlsplit(without_connection(path))
    if not parts.scheme or parts.scheme == "file":
        return "file", parts.path or path
    scheme = "s3" if parts.scheme in S3_SCHEMES else parts.scheme
    return f"{scheme}://{parts.netloc}", parts.path.lstrip("/") or "/"


def _fields(struct: Mapping[str, Any]) -> list[Any]:
    """The fields of a struct type in Spark's JSON form, as OpenLineage describes them."""
    return [_field(field["name"], field["type"]) for field in struct["fields"]]


def _field(name: str, kind: Any) -> Any:
    """Named as OpenLineage's own listener of Spark names them: elements of an array are ``_element``."""
    from openlineage.client.facet_v2 import schema_dataset

    inner: list[Any] = []
    match kind:
        case {"type": "struct"}:
            inner = _fields(kind)
        case {"type": "array", "elementType": element}:
            inner = [_field("_element", element)]
        case {"type": "map", "keyType": key, "valueType": value}:
            inner = [_field("key", key), _field("value", value)]
    told = kind if isinstance(kind, str) else kind["type"]
    return schema_dataset.SchemaDatasetFacetFields(name=name, type=told, fields=inner)
