"""What the operation of a subtask asks of a store, which bills for requests, and for listings more than for reads.

Part of `make test-s3`; it needs no Airflow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.relations import read_files, result_write_options, write_files
from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from testbed.places.programs import connector_folder
from testbed.places.s3_gateway import S3Gateway

pytestmark = [pytest.mark.places, pytest.mark.spark]

SCHEMA = "id BIGINT"
JOB = "s3a://scratch/exchange/dag/run/job"
MOST, MOST_LISTINGS = 33, 13


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Gateway]:
    found = S3Gateway.at(tmp_path_factory.mktemp("store"))
    with found.server:
        found.make_bucket("scratch")
        yield found


@pytest.fixture(scope="module")
def session(store: S3Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    state = tmp_path_factory.mktemp("spark") / "state"
    conf = {"spark.jars": f"{connector_folder('s3')}/*.jar", **store.spark_settings}
    settings = EmbeddedSettings(cores=2, driver_memory="1200m", start_timeout=300, conf=tuple(conf.items()))
    try:
        with open_session(ensure_embedded_server(state, settings=settings)) as found:
            yield found
    finally:
        stop_embedded_server(state)


def run(session: Any, paths: list[str], vertex: str) -> None:
    """As a subtask reads files and writes its result."""
    read = read_files(paths, file_format="parquet", schema=SCHEMA)
    options = result_write_options(SCHEMA, is_sorted=False)
    plan = write_files(read, f"{JOB}/{vertex}/subtask-0/attempt-1/{vertex}.out", "parquet", options)
    session.client.execute_command(plan.command)


def files(store: S3Gateway, below: str) -> list[str]:
    listed = store.client().list_objects_v2(Bucket="scratch", Prefix=f"exchange/dag/run/job/{below}/")["Contents"]
    return [f"s3a://scratch/{each['Key']}" for each in listed if "/part-" in each["Key"]]


def test_a_subtask_that_reads_a_file_and_writes_one_asks_for_little(store: S3Gateway, session: Any) -> None:
    session.range(0, 1000, 1, 1).write.parquet(f"{JOB}/source")
    run(session, files(store, "source"), "first")  # a file system that is there
    before = store.requests()
    run(session, files(store, "first"), "second")
    asked: Counter[str] = store.requests() - before - Counter(ListObjectsV2=1)  # `files` asks, too
    listings = sum(count for what, count in asked.items() if what.startswith("List"))
    print(f"{asked.total()} requests, {listings} of them listings: {dict(asked.most_common())}", flush=True)
    assert session.read.parquet(*files(store, "second")).count() == 1000
    assert asked.total() <= MOST, asked
    assert listings <= MOST_LISTINGS, asked
