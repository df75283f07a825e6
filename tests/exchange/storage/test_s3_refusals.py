"""What is made of an S3 that is busy, refuses, or is not there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from upath import UPath

from airflow_abs.exchange.errors import ExchangeError, ExchangeUnreachableError
from airflow_abs.exchange.publish.publication import publish, read_commit
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.sources.listing import list_source_files
from airflow_abs.exchange.storage.whole_files import (
    create_exclusively,
    read_bytes,
    write_atomic,
)
from tests.exchange.publish.commits import stage, visible
from tests.s3_server import S3Server


@pytest.mark.slow
def test_a_storage_that_is_busy_for_a_moment_is_asked_again(s3: S3Server, s3_root: UPath) -> None:
    everything = ["LIST", "GET", "HEAD", "PUT", "COPY", "DELETE", "DELETE MANY"]
    s3.answer(503, "SlowDown", everything, times=1)
    with ThreadPoolExecutor() as pool:  # side by side: each waits for its client's pause
        written = pool.submit(write_atomic, s3_root / "a", b"1")
        created = pool.submit(create_exclusively, s3_root / "b", b"2")
        staged = pool.submit(stage, s3_root, ["row"])
        written.result()
        assert created.result()
        read = pool.submit(read_bytes, s3_root / "a")
        listed = pool.submit(list_source_files, s3_root)
        publish(s3_root / "t", staged.result(), mode="append", publisher=Publisher("run"))
        assert (read.result(), len(listed.result())) == (b"1", 2)
    assert visible(s3_root / "t") == ["row"]


def test_a_storage_that_stays_busy_is_told_with_the_path_and_what_to_do(s3: S3Server, s3_root: UPath) -> None:
    impatient = UPath(
        str(s3_root), key="k", secret="s", endpoint_url=s3.url, config_kwargs={"retries": {"total_max_attempts": 1}}
    )
    staged = stage(impatient, ["row"])
    s3.answer(503, "SlowDown", ["LIST", "GET", "PUT", "COPY"], times=None)
    told = r"answers 503 \(too many requests\), even after all retries .*run it again later, or let fewer subtasks run"

    def tell(name: str) -> str:
        with pytest.raises(ExchangeError, match=told) as caught:
            {
                "write": lambda: write_atomic(impatient / "a", b""),
                "create": lambda: create_exclusively(impatient / "a", b""),
                "read": lambda: read_bytes(impatient / "a"),
                "list": lambda: list_source_files(impatient),
                "publish": lambda: publish(impatient / "t", staged, mode="append", publisher=Publisher("run")),
            }[name]()
        assert caught.value.restartable
        return str(caught.value)

    names = ["write", "create", "read", "list", "publish"]
    with ThreadPoolExecutor() as pool:
        messages = dict(zip(names, pool.map(tell, names), strict=True))
    where = str(s3_root)
    assert {name: message.partition(": the storage")[0] for name, message in messages.items()} == {
        "write": f"{where}/a",
        "create": f"{where}/a",
        "read": f"{where}/a",
        "list": f"source {where}",
        "publish": f"sink {where}/t",
    }


@pytest.mark.parametrize(("status", "code"), [(409, "ConditionalRequestConflict"), (503, "SlowDown")])
def test_an_exclusive_put_that_meets_another_is_sent_again(
    s3: S3Server, s3_root: UPath, status: int, code: str
) -> None:
    s3.answer(status, code, ["PUT"], times=2)
    assert create_exclusively(s3_root / "claim", b"mine")
    assert not create_exclusively(s3_root / "claim", b"other")
    assert read_bytes(s3_root / "claim") == b"mine"


def test_a_store_that_says_412_without_a_detail_is_understood(s3: S3Server, s3_root: UPath) -> None:
    s3.answer(412, "PreconditionFailed", ["PUT"], times=None)
    assert not create_exclusively(s3_root / "claim", b"mine")


def test_a_store_without_conditional_writes_is_named(s3: S3Server, s3_root: UPath) -> None:
    s3.answer(501, "NotImplemented", ["PUT"], times=None)
    with pytest.raises(ExchangeUnreachableError, match=r"claim: cannot be created .* supports conditional writes"):
        create_exclusively(s3_root / "claim", b"mine")


def test_a_store_that_nobody_runs_is_named(s3_root: UPath) -> None:
    nowhere = UPath(
        str(s3_root),
        key="k",
        secret="s",
        endpoint_url="http://127.0.0.1:9",
        config_kwargs={"retries": {"total_max_attempts": 1}},
    )
    with pytest.raises(ExchangeUnreachableError, match=r"a: cannot be read \(EndpointConnectionError: .*check that"):
        read_bytes(nowhere / "a")
    assert read_commit(s3_root / "t") is None
