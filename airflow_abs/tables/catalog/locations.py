"""Where the partitions of a table lie: many of them found out by one plan of Spark's, a few by asking for each.

No statement tells all locations with the values that they belong to, and a request for each partition takes a metastore
on Derby tens of milliseconds. But Spark's plan of a query names the folders of the partitions that its filter leaves.
So the partitions are numbered from 1, and one query for each binary digit asks for those whose number has it: in which
of the plans a folder is named tells its partition. What is not told apart beyond doubt is asked for one by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from airflow_abs.tables.catalog.description import PARQUET_INPUT, describe
from airflow_abs.tables.catalog.partitions import Partition, hash_of, hashes
from airflow_abs.tables.catalog.statements import SparkCatalog, StatementError, partition_clause
from airflow_abs.tables.errors import TableError

_AT_ONCE = 8
_FEW = 32
"""Up to this many are asked for one by one. A plan lists the folders; Spark does that in parallel for more."""
_LONGEST = 1_000_000_000
_SCAN = re.compile(r"Location: \w+\((?P<paths>\d+) paths\)\[(?P<folders>.*)\], PartitionFilters: (?P<filters>\[.*)")
_DIGIT = re.compile(r"NOT \([^=]* = (\d+)\)")
_URI = re.compile(r"[A-Za-z][\w+.-]*:/")
_REDACTED = "(redacted)"

Values = tuple[str | None, ...]


def locate_partitions(
    table: str, catalog: SparkCatalog, quoted: str, types: Mapping[str, str], chosen: Sequence[Values]
) -> list[Partition]:
    """Where they lie, in their order.

    Args:
        quoted: the table's name in backticks.
        types: of the partition columns, in order, in Spark's words.

    Raises:
        TableError: one is of another format than the table (told of a few partitions alone: who reads it fails); it
            is gone by now.
    """
    if len(chosen) > _FEW:
        located = _by_plans(table, catalog, quoted, types, chosen)
        if located is not None:
            return [Partition(values, where) for values, where in zip(chosen, located, strict=True)]
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="partition") as pool:
        return list(pool.map(partial(_describe, table, catalog, quoted, list(types)), chosen))


def _describe(table: str, catalog: SparkCatalog, quoted: str, columns: Sequence[str], values: Values) -> Partition:
    clause = partition_clause(dict(zip(columns, values, strict=True)))
    found = describe(table, catalog, quoted, clause)
    if found.input_format and found.input_format != PARQUET_INPUT:
        raise TableError(
            f"table {table}: {clause} has files of another format than the table ({found.input_format}); rewrite the "
            "partition (INSERT OVERWRITE), or leave it out by where="
        )
    return Partition(values, found.location)


def _by_plans(
    table: str, catalog: SparkCatalog, quoted: str, types: Mapping[str, str], chosen: Sequence[Values]
) -> list[str] | None:
    numbered = hashes(table, catalog, types, chosen)
    try:
        catalog.rows(f"SET spark.sql.maxMetadataStringLength={_LONGEST}")
        ((told,),) = catalog.rows(f"EXPLAIN {query_by_digit(quoted, hash_of(types), numbered)}")
    except StatementError:
        return None
    return tell_apart(folders_by_digit(told), len(chosen))


def query_by_digit(quoted: str, hashed: str, numbered: Sequence[int]) -> str:
    """One query for each binary digit of 1..n, of the partitions whose number has it.

    Each says in its filter which digit is its own, because nothing promises that the plan names them in this order.
    Hashes are larger numbers; were one as small, its partition would be missing, and nothing be told apart.

    Args:
        hashed: SQL of a partition's hash.
        numbered: the hashes of partitions 1..n.
    """
    queries = []
    for digit in range(len(numbered).bit_length()):
        wanted = ", ".join(str(each) for number, each in enumerate(numbered, 1) if number >> digit & 1)
        queries.append(f"SELECT 1 FROM {quoted} WHERE {hashed} IN ({wanted}) AND {hashed} <> {digit}")  # noqa: S608
    return " UNION ALL ".join(queries)


def folders_by_digit(plan: str) -> dict[int, list[str]]:
    """The folders that each scan of a plan names, by the digit that its filter says.

    Without scans that do not name as many as they say, leave out some by ``...``, or say no digit or that of another.
    """
    if _REDACTED in plan:
        return {}
    found: dict[int, list[str]] = {}
    for scan in _SCAN.finditer(plan):
        folders, digits = scan["folders"].split(", "), _DIGIT.findall(scan["filters"])
        if len(folders) == int(scan["paths"]) and all(map(_URI.match, folders)) and len(digits) == 1:
            digit = int(digits[0])
            found[digit] = [] if digit in found else folders
    return found


def tell_apart(by_digit: Mapping[int, Sequence[str]], count: int) -> list[str] | None:
    """The folders of partitions 1..`count`, given those of the partitions whose number has each binary digit.

    None if they are not as many different folders as partitions, each in the groups of one number.
    """
    numbers: dict[str, int] = {}
    for digit, folders in by_digit.items():
        for folder in folders:
            numbers[folder] = numbers.get(folder, 0) | 1 << digit
    found = {number: folder for folder, number in numbers.items()}
    if len(numbers) != count or found.keys() != set(range(1, count + 1)):
        return None
    return [found[number] for number in range(1, count + 1)]
