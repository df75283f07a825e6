from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Airflow is loaded in a process of its own: tests of this layer run without it
WITH_OBJECT_STORAGE_PATH = """
import sys
from airflow.sdk import ObjectStoragePath
from airflow_abs.exchange.cleaning import find_expired, release_job
from airflow_abs.exchange.commit import StagedFile, publish, read_commit
from airflow_abs.exchange.listing import list_source_files
from airflow_abs.exchange.paths import JobFolder, uri_for_spark
from airflow_abs.exchange.store import check_writable, read_json, write_json, write_atomic

root = ObjectStoragePath("file://" + sys.argv[1])
check_writable(root)
job = JobFolder(root, "d", "r", "j")
write_json(job.plan_path, {"a": 1})
assert read_json(job.plan_path) == {"a": 1}
part = job.result_path("v", 0, 1, "sink") / "part-0.parquet"
write_atomic(part, b"data")
assert uri_for_spark(part) == f"file://{sys.argv[1]}/d/r/j/v/subtask-0/attempt-1/sink/part-0.parquet"
staged = [StagedFile(part, job.relative(part), 4, 1)]
assert publish(root / "mart" / "ds=1", staged, mode="overwrite", identity="run").changed
assert len(list_source_files(root / "mart" / "*")) == 1
assert read_commit(root / "mart" / "ds=1").of("run").files[0].rows == 1
assert release_job(job).files == 1
assert [str(found) for found in find_expired(root / ".", -10.0, 0.0)] in ([], ["d/r/j"])
s3 = ObjectStoragePath("s3://aws_default@bucket/exchange")
assert s3.conn_id == "aws_default" and str(s3).startswith("s3://aws_default@")
"""


def test_the_object_storage_path_of_airflow_is_a_root(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITH_OBJECT_STORAGE_PATH, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_exchange_loads_nothing_heavy() -> None:
    code = """
import pkgutil, sys
import airflow_abs.exchange as exchange
for module in pkgutil.iter_modules(exchange.__path__, "airflow_abs.exchange."):
    __import__(module.name)
heavy = {"airflow", "pyspark", "grpc", "pyarrow", "pandas", "numpy", "fsspec", "upath"} & sys.modules.keys()
assert not heavy, sorted(heavy)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
