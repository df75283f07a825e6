"""A Delta table on S3: the connection that its path names opens it, and a run's rows are in it once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable as Library
from deltalake import write_deltalake

from airflow_abs import DeltaTable
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.hooks.catalogs import catalog_properties, table_access
from airflow_abs.tables.delta.storage import TableFolder, storage_options
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.publishing.publication import publish_staged
from tests.s3_server import REGION
from tests.tables.delta.staging import SCHEMA, row, stage

pytestmark = pytest.mark.slow


BUCKET = "lake-of-delta"
SERVE = f"""
import sys
from tests.s3_server import S3Server
server = S3Server()
server.start()
server.make_bucket({BUCKET!r})
print(server.url, flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Of a server in a process of its own: deltalake opens files without letting other threads of its process go on."""
    command = [sys.executable, "-c", SERVE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()
        assert server.wait(timeout=30) == 0


@pytest.fixture
def bucket(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    extra = {"endpoint_url": url, "region_name": REGION, "verify": False}
    connection = {"conn_type": "aws", "login": "key", "password": "secret:with", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_OF_TEST", json.dumps(connection))
    return BUCKET


def options_of(bucket: str) -> dict[str, str]:
    return storage_options(f"s3a://{bucket}/t", catalog_properties("aws_of_test"))


def test_a_connection_of_airflow_becomes_what_the_library_calls_it(bucket: str, url: str) -> None:
    assert options_of(bucket) == {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret:with",
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": REGION,
        "AWS_ALLOW_HTTP": "true",
    }
    assert storage_options("/lake/t", {"uri": "host", "credential": "a:b", "timeout": "5s"}) == {"timeout": "5s"}


def test_runs_that_publish_at_once_are_each_in_the_table_once(bucket: str, tmp_path: Path) -> None:
    plain, uri = f"s3://{bucket}/tables/t", f"s3a://aws_of_test@{bucket}/tables/t"
    options, nothing = options_of(bucket), pa.Table.from_pylist([], schema=SCHEMA)
    write_deltalake(plain, nothing, partition_by=["region"], storage_options=options)
    target = replace(DeltaTable(uri).target(table_access()), kind="delta")

    def run(number: int) -> dict[str, Any]:
        staged = [stage(tmp_path / f"{number}", [row(number % 4)], "__partition_0=va%2Fb +")]
        return publish_staged(target, staged, publisher=Publisher(f"dag/run-{number % 4}/job/t"), access=table_access())

    with ThreadPoolExecutor(8) as pool:
        done = [each.result(timeout=120) for each in [pool.submit(run, number) for number in range(8)]]
    library = Library(plain, storage_options=options)
    assert Counter(library.to_pyarrow_table()["id"].to_pylist()) == dict.fromkeys(range(4), 1)
    assert sum(each["changed"] for each in done) == library.version() == 4

    pin = DeltaTable(uri, version=4, where="region = 'a/b +'").pin(table_access())
    assert pin.pinned.files == 4
    assert all(file.path.startswith(f"s3a://{bucket}/tables/t/airflow-abs-") for file in pin.files)
    sizes = TableFolder(uri, options).sizes()
    assert all(sizes[file.path.rpartition("/")[2]] == file.bytes for file in pin.files)


def test_a_bucket_that_is_not_there_is_told(bucket: str) -> None:
    with pytest.raises(TableError, match=r"its log cannot be read|there is no Delta table"):
        DeltaTable(f"s3://aws_of_test@not-{bucket}/t").pin(table_access())
