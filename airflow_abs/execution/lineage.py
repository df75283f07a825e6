"""What a job read and published, as OpenLineage datasets; only if Airflow's OpenLineage provider is installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publication import Publication
from airflow_abs.exchange.records.plan import JobPlan
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.runs.run_view import RegionView
from airflow_abs.exchange.storage.locations import S3_SCHEMES
from airflow_abs.exchange.storage.uris import without_connection

_OF_EVERY_SINK = {"expectations", *(field.name for field in fields(Publication))}


def read_lineage(folder: JobFolder, region: str, published: Mapping[str, Mapping[str, Any]]) -> Any:
    """Sources that a region's sinks come from, and the sinks with their rows and bytes, as an `OperatorLineage`; of
    tables with the version that was read, and the one that was made.

    Args:
        published: what `commit` returned.
    """
    from airflow.providers.common.compat.openlineage.facet import (
        Dataset,
        OutputDataset,
        OutputStatisticsOutputDatasetFacet,
    )
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.facet_v2 import dataset_version_dataset

    run = read_run(folder)
    own = run.region(region)

    def at(version: str) -> dict[str, Any]:
        return {"version": dataset_version_dataset.DatasetVersionDatasetFacet(version)} if version else {}

    inputs = [Dataset(*name, facets=at(version)) for name, version in sorted(sources_of(run.plan, region).items())]
    outputs = []
    for sink in own.planned.sinks:
        rows, size, files = written(own, sink.result)
        statistics = OutputStatisticsOutputDatasetFacet(rowCount=rows, size=size, fileCount=files)
        name = split_table(sink.label) if sink.table is not None else split_uri(sink.label)
        made = at(version_made(published.get(sink.vertex, {})))
        outputs.append(OutputDataset(*name, facets=made, outputFacets={"outputStatistics": statistics}))
    return OperatorLineage(inputs=inputs, outputs=outputs)


def sources_of(plan: JobPlan, region: str) -> dict[tuple[str, str], str]:
    """Namespace and name of all sources that the region's rows come from, also through other regions, and the version
    that is read of each ("" for files).

    A table is in the namespace of its catalog, by its name in there.
    """
    planned = plan.region(region)
    found = {split_uri(source.files.path): "" for source in planned.sources if source.files is not None}
    tables = [source.table for source in planned.sources if source.table is not None]
    found |= {split_table(table.table): table.version for table in tables}
    for entry in planned.inputs:
        found |= sources_of(plan, entry.region)
    return found


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
