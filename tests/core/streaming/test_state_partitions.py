"""Which state can be repartitioned, by what its checkpoint says of it."""

from __future__ import annotations

from airflow_abs.core.streaming.query_layout import QueryLayout, StatefulOperator
from airflow_abs.core.streaming.state_partitions import ROCKSDB, STATE_STORE, find_obstacle

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


def layout(*kinds: str, store: str = ROCKSDB) -> QueryLayout:
    operators = tuple(StatefulOperator(number, kind) for number, kind in enumerate(kinds))
    return QueryLayout(1, operators, {STATE_STORE: store})


def test_aggregations_deduplications_and_joins_in_rocksdb_can_be() -> None:
    assert find_obstacle(layout("stateStoreSave", "dedupe", "dedupeWithinWatermark", "symmetricHashJoin")) == ""
    assert find_obstacle(layout("sessionWindowStateStoreSaveExec")) == ""


def test_the_state_store_that_spark_has_by_default_cannot_be() -> None:
    assert find_obstacle(layout("dedupe", store=HDFS)) == (
        "it is kept by HDFSBackedStateStoreProvider, and Spark repartitions only state in RocksDB; give the stream "
        "another checkpoint and another sink to start over with RocksDB"
    )
    assert "an unknown state store" in find_obstacle(QueryLayout(1))


def test_an_operator_that_spark_does_not_know_there_is_named() -> None:
    assert find_obstacle(layout("dedupe", "globalLimit")) == (
        "operator 1 is a limit, and only the state of aggregations, deduplications and joins of two streams is "
        "repartitioned; drop repartition_state"
    )


def test_what_cannot_be_read_is_left_alone() -> None:
    assert find_obstacle(None) == ("its checkpoint has a format that is not known; another release of Spark wrote it")
