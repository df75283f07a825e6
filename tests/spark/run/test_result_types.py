"""Every type of column through a durable edge that is read by range: encoders differ by type, and so do readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.relations import result_write_options
from tests.job_runner import program_of, run_job

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

KIB = 1024
# More different values of each type than fit a dictionary: the encoding that comes after it is the one that matters.
VALUES = """SELECT range AS id, (hash(range) % 100)::TINYINT AS tiny, (hash(range) % 30000)::SMALLINT AS small,
                   (hash(range) % 2000000000)::INT AS number, (hash(range) >> 2)::BIGINT AS large,
                   range / 7.0::FLOAT AS single, range / 7.0::DOUBLE AS double,
                   (hash(range) % 9999999 / 100)::DECIMAL(9,2) AS price,
                   (hash(range) % 99999999999)::DECIMAL(18,4) AS sum,
                   (hash(range)::HUGEINT * 1000)::DECIMAL(28,4) AS total,
                   (hash(range)::HUGEINT * 100000)::DECIMAL(38,10) AS huge,
                   md5(range::VARCHAR) AS text, md5((range + 1)::VARCHAR)::BLOB AS bytes,
                   DATE '2000-01-01' + (range % 9000)::INT AS day, TIMESTAMP '2000-01-01' + to_seconds(range) AS moment,
                   range % 3 = 0 AS flag, [(hash(range + 1)::HUGEINT)::DECIMAL(30,2)] AS list,
                   {'a': (hash(range + 2)::HUGEINT)::DECIMAL(25,1), 'b': md5(range::VARCHAR)} AS pair
            FROM range(150000)"""


@pytest.mark.spark
def test_ranges_of_every_type_give_the_rows_that_were_written(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    (tmp_path / "values").mkdir()
    duckdb.sql(f"COPY ({VALUES}) TO '{tmp_path}/values/part-0.parquet' (FORMAT parquet)")
    run = run_job(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("values", has_source=True), JobVertex("again", has_sink=True)],
        [JobEdge("values", "again", "values", Partitioning.HASH, ("id",))],
        [
            program_of("values", None, {}, Files(str(tmp_path / "values"))),
            program_of("again", None, {}, sink=Files(str(tmp_path / "out"))),
        ],
        target_bytes=4096 * KIB,
    )
    assert run.decisions["again"].parallelism > 3
    read = [f"SELECT * FROM '{tmp_path}/{folder}/**/*.parquet'" for folder in ("values", "out")]
    counts = duckdb.sql(f"SELECT (SELECT count(*) FROM ({read[0]} EXCEPT ALL {read[1]})), count(*) FROM ({read[1]})")
    assert counts.fetchall() == [(0, 150000)]


@pytest.mark.parametrize(
    ("column", "version"),
    [("decimal(18,4)", "v2"), ("decimal(19,0)", "v1"), ("long", "v2"), ("string", "v2")],
)
def test_decimals_that_spark_writes_as_byte_arrays_are_not_delta_encoded(column: str, version: str) -> None:
    schema = f'{{"type":"struct","fields":[{{"name":"a","type":"{column}","nullable":true,"metadata":{{}}}}]}}'
    assert result_write_options(schema, is_sorted=True)["parquet.writer.version"] == version
