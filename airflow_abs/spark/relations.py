"""Relations of Spark Connect's protocol that a subtask puts around the compiled plan: reads, ranges, hashing, writes.

They are built by hand, without plan ids, so that they cannot collide with the column references of user code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Any

from airflow_abs.core.decide.hot_subpartitions import row_class
from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.sql_names import quote
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.exchange.results.parquet_bytes import SUBPARTITION_COLUMN
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.connect.protocol import protos

Relation = Any
"""A `pyspark.sql.connect.proto.Relation`."""

# For files that must be exactly as they were written: a flipped bit, a damaged file and a missing file are errors, even
# on a server that is set to skip such files.
WHOLE = {
    "parquet.page.verify-checksum.enabled": "true",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}

# For sessions that write results: a server set to TIMESTAMP_MILLIS would cut off microseconds.
RESULT_SETTINGS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
_RESULT_WRITE_OPTIONS = {
    "parquet.page.write-checksum.enabled": "true",
    # Least CPU among the codecs and encodings that were measured.
    "compression": "lz4_raw",
    "parquet.writer.version": "v2",
    "parquet.block.size": str(128 * 1024 * 1024),
}
# Of a sorted file, a range filter skips most of the pages if these are small.
_SMALL_PAGES = {"parquet.page.size": str(64 * 1024), "parquet.page.row.count.limit": "5000"}
NOT_CUT: Mapping[str, IndexRange] = {}
FILE_METADATA = "_metadata"
"""Spark's hidden column of what is read from files."""
_ROW_INDEX = f"{FILE_METADATA}.row_index"
"""The number of a row in its file."""
_DECIMAL = re.compile(r"decimal\((\d+),")
_MOST_DIGITS_OF_A_LONG = 18


def result_write_options(schema: str, *, is_sorted: bool) -> dict[str, str]:
    """How a result with this schema (JSON) is written, sorted by subpartition or not.

    Version 2 encodes the byte arrays of longer decimals as deltas, and Spark (4.2.0) cannot skip rows of those, which
    every read of a range of subpartitions does.
    """
    longer = any(int(digits) > _MOST_DIGITS_OF_A_LONG for digits in _DECIMAL.findall(schema))
    pages = _SMALL_PAGES if is_sorted else {}
    return _RESULT_WRITE_OPTIONS | pages | ({"parquet.writer.version": "v1"} if longer else {})


def read_files(
    paths: Sequence[str], *, file_format: str, schema: str, options: Mapping[str, str] | None = None
) -> Relation:
    """Read exactly these files with this schema (JSON or DDL); without any it has no rows, and columns like
    ``_metadata`` all the same."""
    proto = protos()
    as_named = {"__globPaths__": "false"}  # the paths were listed: a `[` in one of them is a character
    source = proto.Read.DataSource(
        format=file_format, schema=schema, paths=list(paths), options={**(options or {}), **as_named} if paths else {}
    )
    return proto.Relation(read=proto.Read(data_source=source))


def no_rows(schema: str) -> Relation:
    """An empty relation of this schema (JSON or DDL), known to be empty."""
    proto = protos()
    return proto.Relation(local_relation=proto.LocalRelation(schema=schema))


def read_result(
    paths: Sequence[str],
    *,
    schema: str,
    numbered: bool,
    subpartitions: IndexRange | None = None,
    left_out: Collection[int] = (),
    cut: Mapping[str, IndexRange] = NOT_CUT,
) -> Relation:
    """Read the rows of a range of subpartitions (None: all) without some of it from exchange files.

    `schema` is the vertex's own; `numbered` says whether the files carry the subpartition column besides it. Of those
    in `cut` only rows of these classes are read, see `ProducerShare`.
    """
    if not paths:
        return no_rows(schema)
    if not numbered:
        return read_files(paths, file_format="parquet", schema=schema, options=WHOLE)
    condition = None
    if subpartitions is not None:
        start, stop = subpartitions.start, subpartitions.stop
        without = "".join(f" AND {SUBPARTITION_COLUMN} <> {number}" for number in sorted(left_out))
        condition = f"{SUBPARTITION_COLUMN} >= {start} AND {SUBPARTITION_COLUMN} < {stop}{without}"
    whole = [path for path in paths if path not in cut]
    read = [_read_numbered(whole, schema, condition)] if whole else []
    for path in paths:
        if path in cut:
            number, classes = row_class(_ROW_INDEX), cut[path]
            own = f"{number} >= {classes.start} AND {number} < {classes.stop}"
            read.append(_read_numbered([path], schema, f"{condition} AND {own}" if condition else own))
    return drop_columns(reduce(unite, read), [SUBPARTITION_COLUMN])


def _read_numbered(paths: Sequence[str], schema: str, condition: str | None) -> Relation:
    relation = read_files(paths, file_format="parquet", schema=_with_subpartition(schema), options=WHOLE)
    return relation if condition is None else filter_rows(relation, condition)


def unite(left: Relation, right: Relation) -> Relation:
    """All rows of both, by position."""
    proto = protos()
    union = proto.SetOperation.SetOpType.SET_OP_TYPE_UNION
    return proto.Relation(set_op=proto.SetOperation(left_input=left, right_input=right, set_op_type=union, is_all=True))


def placeholder_relation(name: str, schema: str) -> Relation:
    """An empty relation of this schema under a reserved name, to be replaced in every subtask."""
    proto = protos()
    return proto.Relation(subquery_alias=proto.SubqueryAlias(input=no_rows(schema), alias=name))


def filter_rows(relation: Relation, condition: str) -> Relation:
    proto = protos()
    return proto.Relation(filter=proto.Filter(input=relation, condition=sql_expression(condition)))


def select_columns(relation: Relation, names: Sequence[str]) -> Relation:
    """The columns in this order; a reader puts partition columns last, wherever the schema has them."""
    return select_expressions(relation, _attributes(names))


def select_expressions(relation: Relation, columns: Sequence[Any]) -> Relation:
    """These columns, see `column`."""
    proto = protos()
    return proto.Relation(project=proto.Project(input=relation, expressions=columns))


def column(name: str, value: Any) -> Any:
    """An expression under a name."""
    proto = protos()
    return proto.Expression(alias=proto.Expression.Alias(expr=value, name=[name]))


def rename_columns(relation: Relation, names: Sequence[str]) -> Relation:
    """The same columns under these names, by position."""
    proto = protos()
    return proto.Relation(to_df=proto.ToDF(input=relation, column_names=list(names)))


def drop_columns(relation: Relation, names: Sequence[str]) -> Relation:
    proto = protos()
    return proto.Relation(drop=proto.Drop(input=relation, column_names=list(names)))


def group_by(relation: Relation, names: Sequence[str]) -> Relation:
    """One row for each value of these columns."""
    proto = protos()
    grouped = proto.Aggregate.GroupType.GROUP_TYPE_GROUPBY
    return proto.Relation(
        aggregate=proto.Aggregate(input=relation, group_type=grouped, grouping_expressions=_attributes(names))
    )


def coalesce(relation: Relation, partitions: int) -> Relation:
    proto = protos()
    return proto.Relation(repartition=proto.Repartition(input=relation, num_partitions=partitions, shuffle=False))


def broadcast(relation: Relation) -> Relation:
    """The rows with the hint that a join should hash them in memory; where none can, Spark ignores it."""
    proto = protos()
    return proto.Relation(hint=proto.Hint(input=relation, name="broadcast"))


def add_subpartition(relation: Relation, expression: str) -> Relation:
    """Add the subpartition column."""
    proto = protos()
    column = proto.Expression.Alias(expr=sql_expression(expression), name=[SUBPARTITION_COLUMN])
    return proto.Relation(with_columns=proto.WithColumns(input=relation, aliases=[column]))


def sort_locally(relation: Relation, names: Sequence[str]) -> Relation:
    """Each Spark partition sorted by these columns, NULLs first."""
    return _sort_each(relation, _attributes(names))


def _sort_each(relation: Relation, by: Sequence[Any]) -> Relation:
    proto = protos()
    order = [
        proto.Expression.SortOrder(
            child=column,
            direction=proto.Expression.SortOrder.SORT_DIRECTION_ASCENDING,
            null_ordering=proto.Expression.SortOrder.SORT_NULLS_FIRST,
        )
        for column in by
    ]
    return proto.Relation(sort=proto.Sort(input=relation, order=order, is_global=False))


def arrange(
    relation: Relation, sink: Files | TargetTable, hashed: Sequence[str], texts: Collection[str] = ()
) -> Relation:
    """The rows as a sink wants them in its files: in this many Spark partitions, sorted in each.

    Rows of one table partition come together first: a file holds rows of one alone.

    Args:
        relation: the rows.
        sink: its files.
        hashed: columns of its files that Spark can hash.
        texts: columns of type STRING. As a partition, "" is NULL to Spark, so it has to sort as NULL.
    """
    if sink.files is not None:
        relation = _in_files(relation, sink.files, sink.partition_by, hashed)
    if not sink.sort_by:
        return relation
    partitions = [
        sql_expression(f"nullif({quote(name)}, '')") if name in texts else attribute(name) for name in sink.partition_by
    ]
    return _sort_each(relation, [*partitions, *map(attribute, sink.sort_by)])


def _in_files(relation: Relation, count: int, partition_by: Sequence[str], hashed: Sequence[str]) -> Relation:
    proto = protos()
    if not partition_by:
        return proto.Relation(repartition=proto.Repartition(input=relation, num_partitions=count, shuffle=True))
    groups = _attributes(partition_by)
    if count > 1 and hashed:
        groups.append(sql_expression(f"pmod(xxhash64({', '.join(map(quote, hashed))}), {count})"))
    return proto.Relation(
        repartition_by_expression=proto.RepartitionByExpression(input=relation, partition_exprs=groups)
    )


UNLISTED_FOLDER = {
    # What counts is in the manifest.
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # S3's magic committer leaves its notes, under a name that no reader takes for data: `release` deletes them with all
    # else in the folder, without a request of their own.
    "fs.s3a.committer.magic.cleanup.enabled": "false",
}
"""Options of Hadoop for folders that only our manifests name; every step left out is several requests to a store."""


def write_files(
    relation: Relation, path: str, file_format: str, options: Mapping[str, str], partition_by: Sequence[str] = ()
) -> Any:
    """The command that writes `relation` to the new folder `path`; a folder that exists is replaced.

    The folder belongs to one attempt alone, so replacing it can only meet the leavings of the same operation.
    """
    proto = protos()
    write = proto.WriteOperation(
        input=relation,
        source=file_format,
        path=path,
        mode=proto.WriteOperation.SaveMode.SAVE_MODE_OVERWRITE,
        # With dynamic overwriting, a server would replace only the partitions that are written.
        options={**UNLISTED_FOLDER, **options, **({"partitionOverwriteMode": "static"} if partition_by else {})},
        partitioning_columns=partition_by,
    )
    return proto.Plan(command=proto.Command(write_operation=write))


def sql_expression(text: str) -> Any:
    proto = protos()
    return proto.Expression(expression_string=proto.Expression.ExpressionString(expression=text))


def _attributes(names: Sequence[str]) -> list[Any]:
    return list(map(attribute, names))


def attribute(name: str) -> Any:
    """A column by its name."""
    proto = protos()
    return proto.Expression(unresolved_attribute=proto.Expression.UnresolvedAttribute(unparsed_identifier=quote(name)))


def _with_subpartition(schema: str) -> str:
    fields = json.loads(schema)
    fields["fields"] = [
        *fields["fields"],
        {"name": SUBPARTITION_COLUMN, "type": "integer", "nullable": True, "metadata": {}},
    ]
    return json.dumps(fields)
