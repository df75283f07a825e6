"""Which releases a server may have."""

from __future__ import annotations

import pytest

from airflow_abs.spark.access.releases import LACKS, check_versions
from airflow_abs.spark.errors import VersionMismatchError


@pytest.mark.parametrize(
    ("server", "client"), [("4.2.0", "4.2.0"), ("4.2.0-SNAPSHOT", "4.2.0"), ("4.2.0+x.1", "4.2.0")]
)
def test_the_same_release_fits(server: str, client: str) -> None:
    check_versions(server, client)


@pytest.mark.parametrize("server", ["4.2.1", "4.3.0", "3.5.0"])
def test_another_release_is_refused(server: str) -> None:
    with pytest.raises(VersionMismatchError) as caught:
        check_versions(server, "4.2.0")
    assert str(caught.value) == (
        f"Spark Connect server runs Spark {server}, this Airflow has pyspark 4.2.0; expected the same version; run the "
        "server on Spark 4.2.0"
    )


@pytest.mark.parametrize("server", ["4.0.5", "4.1.4"])
def test_what_a_release_lacks_is_said_where_it_was_tried(server: str) -> None:
    with pytest.raises(VersionMismatchError) as caught:
        check_versions(server, "4.2.0")
    assert str(caught.value) == (
        f"Spark Connect server runs Spark {server}, this Airflow has pyspark 4.2.0: {LACKS[server[:3]]}; expected the "
        "same version; run the server on Spark 4.2.0"
    )
    assert "GetStatus" in LACKS[server[:3]]
