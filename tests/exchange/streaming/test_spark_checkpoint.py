"""What Spark's own files of a checkpoint say, on every kind of storage."""

from __future__ import annotations

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.whole_files import write_atomic
from airflow_abs.exchange.streaming.spark_checkpoint import SparkCheckpoint, read_spark_checkpoint

OFFSETS = b"""v1
{"batchWatermarkMs":0,"batchTimestampMs":1767225600000,"conf":{"spark.sql.shuffle.partitions":"4"}}
{"logOffset":0}"""


def test_a_checkpoint_without_batches_has_none(job: JobFolder) -> None:
    assert read_spark_checkpoint(job.root / "spark") == SparkCheckpoint(None, None, None)


def test_its_last_batches_are_counted_as_numbers(job: JobFolder) -> None:
    spark = job.root / "spark"
    for batch in (8, 9, 10):
        write_atomic(spark / f"offsets/{batch}", OFFSETS)
        write_atomic(spark / f"offsets/.{batch}.crc", b"")
    write_atomic(spark / "commits/9", b"v1\n{}")
    assert read_spark_checkpoint(spark) == SparkCheckpoint(10, 9, None)


def test_state_is_cut_into_as_many_partitions_as_its_last_batch_says(job: JobFolder) -> None:
    spark = job.root / "spark"
    write_atomic(spark / "offsets/0", OFFSETS)
    write_atomic(spark / "state/0/0/1.delta", b"")
    assert read_spark_checkpoint(spark) == SparkCheckpoint(0, None, 4)


def test_what_another_spark_may_write_is_no_number(job: JobFolder) -> None:
    spark = job.root / "spark"
    write_atomic(spark / "offsets/0", b"v9")
    write_atomic(spark / "state/0/0/1.delta", b"")
    assert read_spark_checkpoint(spark) == SparkCheckpoint(0, None, None)
