"""What a stream runs is what was compiled."""

from __future__ import annotations

import pytest

from airflow_abs.exchange.errors import DamagedFileError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.whole_files import read_bytes, write_atomic
from airflow_abs.exchange.streaming.stored_query import (
    forget_other_queries,
    read_query,
    read_stored_queries,
    store_query,
)


def test_a_stored_query_is_read_back(job: JobFolder) -> None:
    digest = store_query(job.root, b"a plan")
    assert digest == store_query(job.root, b"a plan")
    assert read_query(job.root, digest) == b"a plan"


def test_one_that_is_not_what_was_stored_is_refused(job: JobFolder) -> None:
    digest = store_query(job.root, b"a plan")
    write_atomic(job.root / f"_airflow_abs/queries/{digest}.pb", b"another")
    with pytest.raises(DamagedFileError, match="is not what was stored there; clear the task of the stream"):
        read_query(job.root, digest)
    with pytest.raises(MissingFileError):
        read_query(job.root, "0" * 32)


def test_only_what_runs_is_kept(job: JobFolder) -> None:
    first, second = (store_query(job.root, plan) for plan in (b"a plan", b"another plan"))
    write_atomic(job.root / "_airflow_abs/queries/notes.txt", b"not ours")
    assert sorted(read_stored_queries(job.root)) == [b"a plan", b"another plan"]
    forget_other_queries(job.root, second)
    assert read_stored_queries(job.root) == (b"another plan",)
    assert read_query(job.root, second) == b"another plan"
    with pytest.raises(MissingFileError):
        read_query(job.root, first)
    assert read_bytes(job.root / "_airflow_abs/queries/notes.txt") == b"not ours"
    forget_other_queries(job.root / "without", second)
