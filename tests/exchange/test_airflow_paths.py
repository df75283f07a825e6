from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from upath import UPath

from tests.s3_server import S3Server

# Airflow is loaded in a process of its own: tests of this layer run without it
WITH_OBJECT_STORAGE_PATH = """
import asyncio, sys
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.runs.cleaning import find_expired, release_job
from airflow_abs.exchange.publish.publication import StagedFile, publish, read_commit
from airflow_abs.exchange.sources.listing import list_source_files
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.paths import uri_for_spark
from airflow_abs.exchange.storage.whole_files import check_writable, read_json, write_json, write_atomic
from airflow_abs.hooks.storage import open_path
from airflow_abs.execution.subtask import SubtaskRun

_, exchange, spark, conn_id = sys.argv
assert not {"s3fs", "botocore", "boto3", "aiohttp", "moto"} & sys.modules.keys()
run = SubtaskRun("spark", exchange, "d", "r", "j", "j.v.run", 0, "v", 1, {}, 600.0)
job = asyncio.run(run.aopen_folder())  # as a trigger does, in its loop
root = job.root
assert type(root).__name__ == "ObjectStoragePath" and (root.conn_id or "") == conn_id
check_writable(root)
write_json(job.plan_path, {"id": "p", "regions": []})
assert read_json(job.plan_path) == {"id": "p", "regions": []}
part = job.result_path("v", 0, 1, "sink") / "part-0.parquet"
write_atomic(part, b"data")
assert uri_for_spark(part) == spark + "/d/r/j/v/subtask-0/attempt-1/sink/part-0.parquet"
staged = [StagedFile(part, job.relative(part), 4, 1)]
target = open_path(exchange + "/mart/ds=1")  # opened anew, as the commit task does
assert locate(target).fs is locate(root).fs  # so files are copied inside the store
assert publish(target, staged, mode="overwrite", publisher=Publisher("run")).changed
assert [file.path.rpartition("/")[0] for file in list_source_files(root / "mart" / "*")] == [spark + "/mart/ds=1"]
assert read_commit(target).of(Publisher("run"))[0].files[0].rows == 1
assert release_job(job).files == 1
assert [str(found) for found in find_expired(root, -1e10, 0.0)] == ["d/r/j"]
"""


def run_with_object_storage_path(exchange: str, spark: str, conn_id: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITH_OBJECT_STORAGE_PATH, exchange, spark, conn_id],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr


def test_the_object_storage_path_of_airflow_is_a_root(tmp_path: Path) -> None:
    run_with_object_storage_path(f"file://{tmp_path}", f"file://{tmp_path}", "")


def test_a_bucket_behind_a_connection_of_airflow_is_a_root(s3: S3Server, s3_root: UPath) -> None:
    place = str(s3_root.path)
    connection = {"conn_type": "aws", "login": "k", "password": "s", "extra": {"endpoint_url": s3.url}}
    run_with_object_storage_path(
        f"s3://minio@{place}", f"s3a://{place}", "minio", AIRFLOW_CONN_MINIO=json.dumps(connection)
    )


def test_the_exchange_loads_nothing_heavy() -> None:
    code = """
import pkgutil, sys
import airflow_abs.exchange as exchange
for module in pkgutil.walk_packages(exchange.__path__, "airflow_abs.exchange."):
    __import__(module.name)
heavy = {"airflow", "pyspark", "grpc", "pyarrow", "pandas", "numpy", "fsspec", "upath", "botocore", "s3fs"}
assert not heavy & sys.modules.keys(), sorted(heavy & sys.modules.keys())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
