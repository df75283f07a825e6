"""Shares of what one producer wrote, as Spark reads them: every row of the subpartition once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_abs.core.decide.hot_subpartitions import ProducerShare
from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.exchange.results.parquet_bytes import SUBPARTITION_COLUMN, measure_files
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.relations import read_result

pytestmark = pytest.mark.spark

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
SUBPARTITIONS = 4


def draw_files(folder: Path, random: Random) -> tuple[list[Path], list[int]]:
    """Files of one producer, sorted or not, with pages and row groups of any size; and the ids in subpartition 1."""
    paths, hot = [], []
    for number in range(random.choice([1, 1, 2, 5])):
        rows = random.choice([0, 1, 7, 900, 20_000])
        held = [1 if random.random() < 0.8 else random.randrange(SUBPARTITIONS) for _ in range(rows)]
        if random.random() < 0.6:
            held.sort()
        ids = [number * 100_000 + row for row in range(rows)]
        table = pa.table({"id": pa.array(ids, pa.int64()), SUBPARTITION_COLUMN: pa.array(held, pa.int32())})
        pages = {"data_page_size": random.choice([512, 65536]), "write_page_index": True}
        paths.append(folder / f"part-{number}.parquet")
        pq.write_table(table, paths[-1], row_group_size=random.choice([500, 1_000_000]), **pages)
        hot += [row for row, subpartition in zip(ids, held, strict=True) if subpartition == 1]
    return paths, hot


@pytest.mark.parametrize("seed", range(6))
def test_every_row_is_in_one_share(session: Any, tmp_path: Path, seed: int) -> None:
    random = Random(seed)  # noqa: S311
    paths, hot = draw_files(tmp_path, random)
    count = random.choice([2, 3, 7])
    sizes = [
        each.subpartition_bytes[1 - each.first] if 0 <= 1 - each.first < len(each.subpartition_bytes) else 0
        for each in measure_files(paths, SUBPARTITIONS)
    ]
    read: list[list[int]] = []
    for number in range(count):
        share = {paths[index].as_uri(): span for index, span in ProducerShare(0, number, count).within(sizes).items()}
        relation = read_result(list(share), schema=SCHEMA, numbered=True, subpartitions=IndexRange(1, 2), cut=share)
        table, _ = session.client.to_table(protos().Plan(root=relation), [])[:2]
        read.append(table.column("id").to_pylist())
    assert Counter(row for rows in read for row in rows) == Counter(hot)
    if len(hot) > 5000:
        assert max(map(len, read)) < 1.1 * len(hot) / count
