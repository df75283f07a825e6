"""One URI for Airflow and for Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from upath import UPath

from airflow_abs.exchange.paths import uri_for_spark
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.storage.uris import connection_of, for_airflow, for_hadoop, without_connection

HOST = "account.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("written", "airflow", "hadoop", "connection"),
    [
        ("s3://conn@bucket/a@b/c", "s3://conn@bucket/a@b/c", "s3a://bucket/a@b/c", "conn"),
        ("s3a://bucket/x", "s3a://bucket/x", "s3a://bucket/x", None),
        ("gs://conn@bucket/x", "gs://conn@bucket/x", "gs://bucket/x", "conn"),
        ("gs://bucket", "gs://bucket", "gs://bucket", None),
        (f"abfss://conn@box@{HOST}/x", "abfss://conn@box/x", f"abfss://box@{HOST}/x", "conn"),
        (f"abfss://box@{HOST}/a@b", "abfss://box/a@b", f"abfss://box@{HOST}/a@b", None),
        (f"abfs://box@{HOST}", "abfs://box", f"abfs://box@{HOST}", None),
        ("hdfs://conn@node:8020/x", "hdfs://conn@node:8020/x", "hdfs://node:8020/x", "conn"),
        ("hdfs://node:8020/x", "hdfs://node:8020/x", "hdfs://node:8020/x", None),
        ("file:///a b/x", "file:///a b/x", "file:///a b/x", None),
        ("file:/a/x", "file:///a/x", "file:///a/x", None),
        ("/a:/x", "/a:/x", f"file://{Path('/a:/x')}", None),
    ],
)
def test_both_sides_get_the_uri_that_they_take(written: str, airflow: str, hadoop: str, connection: str | None) -> None:
    assert for_airflow(written) == airflow
    assert Files(written).uri == hadoop
    assert connection_of(written) == connection
    if "://" in written:
        assert for_hadoop(without_connection(written)) == hadoop


class Opened:
    """What `ObjectStoragePath` adds to a path: its connection, also in the text."""

    def __init__(self, text: str, conn_id: str | None) -> None:
        self.fs, self.path = UPath("memory://x").fs, "/x"
        self.text, self.conn_id = text, conn_id

    def __str__(self) -> str:
        return self.text


@pytest.mark.parametrize("connection", ["azure", None])
def test_a_path_that_airflow_has_opened_goes_back_to_spark_with_its_account(connection: str | None) -> None:
    before = f"{connection}@" if connection else ""
    opened = Opened(for_airflow(f"abfss://{before}exchange@{HOST}/root"), connection)
    assert str(opened) == f"abfss://{before}exchange/root"
    assert uri_for_spark(opened) == f"abfss://exchange@{HOST}/root"  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "conn_id"), [("abfss://azure@unheard/x", "azure"), ("abfss://unheard/x", None)])
def test_a_container_without_its_account_is_refused_before_spark_gets_it(text: str, conn_id: str | None) -> None:
    told = r"found no storage account in it; expected abfss://<container>@<account>\.dfs\.core\.windows\.net/x: Spark"
    with pytest.raises(ValueError, match=told):
        uri_for_spark(Opened(text, conn_id))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=told):
        _ = Files(text).uri


def test_a_connection_has_one_account() -> None:
    for_airflow("abfss://one@box@first.dfs.core.windows.net/x")
    with pytest.raises(
        ValueError, match=r"found container 'box' in account 'first\.dfs\.core\.windows\.net' before; exp"
    ):
        for_airflow("abfss://one@box@second.dfs.core.windows.net/x")
    assert for_airflow("abfss://two@box@second.dfs.core.windows.net/x") == "abfss://two@box/x"


@pytest.mark.parametrize("uri", ["hdfs:/lake/x", "s3:/lake/x"])
def test_a_uri_without_a_place_is_refused_and_no_relative_path(uri: str) -> None:
    scheme = uri.partition(":")[0]
    with pytest.raises(ValueError, match=rf"Files: '{uri}': found no host or bucket in it; expected {scheme}://<host"):
        Files(uri)
    with pytest.raises(ValueError, match="found no host or bucket in it"):
        for_airflow(uri)
