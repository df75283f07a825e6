from __future__ import annotations

from collections.abc import Iterator

import pytest
from airflow.sdk._shared.secrets_masker import reset_secrets_masker
from airflow.sdk.log import mask_secret

from airflow_abs.core.errors import JobGraphError
from airflow_abs.hooks.secrets import check_no_secrets


@pytest.fixture(autouse=True)
def masked() -> Iterator[None]:
    mask_secret("s3cr3t-of-a-connection")
    yield
    reset_secrets_masker()


@pytest.mark.parametrize(
    "value", ["s3cr3t-of-a-connection", "jdbc:x?password=s3cr3t-of-a-connection", ["s3cr3t-of-a-connection"]]
)
def test_a_value_that_airflow_masks_does_not_get_into_the_plan(value: object) -> None:
    with pytest.raises(JobGraphError) as refused:
        check_no_secrets("orders", "transform_kwargs", {"key": value}, by_name=False)
    assert str(refused.value).startswith(
        "vertex 'orders': 'key' of its transform_kwargs is a secret that Airflow masks"
    )
    assert "s3cr3t" not in str(refused.value)


def test_a_name_alone_makes_a_secret_of_a_reader_option_but_not_of_an_argument() -> None:
    with pytest.raises(JobGraphError, match=r"'fs\.s3a\.secret\.key' of its source's options is a secret"):
        check_no_secrets("orders", "source's options", {"fs.s3a.secret.key": "x"}, by_name=True)
    check_no_secrets(
        "orders", "transform_kwargs", {"token": "x", "day": "2026-01-01", "n": 3, "flag": True}, by_name=False
    )
    check_no_secrets("orders", "source's options", {"header": "true", "sep": ";"}, by_name=True)
