from __future__ import annotations

import pytest

from airflow_abs.hooks.storage import open_path


@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
def test_a_place_that_only_spark_reads_is_refused_with_what_to_use(scheme: str) -> None:
    uri = f"{scheme}://namenode:8020/exchange"
    with pytest.raises(ValueError, match="Airflow has no file system") as refused:
        open_path(uri)
    assert str(refused.value) == (
        f"'{uri}': Spark reads {scheme}://, but Airflow has no file system for it; expected storage that both reach: "
        "an object store (s3://<connection>@<bucket>/...), or a folder that Airflow's hosts and the cluster mount "
        "under the same path, such as HDFS through its NFS gateway"
    )
