"""Paths on any storage that Airflow knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_abs.exchange.storage.locations import ExchangePath

_HADOOP_ALONE = ("hdfs", "webhdfs", "viewfs")


def open_path(uri: str) -> ExchangePath:
    """The path behind a URI (or a local path), with the connection that it names; nothing is read yet.

    Raises:
        ValueError: it names no place, see `for_airflow`; or one on HDFS, which Airflow cannot reach.
    """
    from airflow.sdk import ObjectStoragePath

    from airflow_abs.exchange.storage.uris import for_airflow

    scheme = uri.partition("://")[0]
    if scheme in _HADOOP_ALONE:  # no provider reads it, and `ObjectStoragePath` drops the name node of such a URI
        raise ValueError(
            f"{uri!r}: Spark reads {scheme}://, but Airflow has no file system for it; expected storage that both "
            "reach: an object store (s3://<connection>@<bucket>/...), or a folder that Airflow's hosts and the cluster "
            "mount under the same path, such as HDFS through its NFS gateway"
        )
    return ObjectStoragePath(for_airflow(uri))
