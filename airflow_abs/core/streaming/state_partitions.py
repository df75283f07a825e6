"""Whether the state of a stopped query can be cut into other partitions, by what its checkpoint says of it.

Spark 4.2 does it with a classic session while nothing runs on the checkpoint (its `StreamingCheckpointManager`).
"""

from __future__ import annotations

from airflow_abs.core.streaming.query_layout import QueryLayout

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The one that Spark can repartition; its default keeps state in memory, and in files of HDFS' kind."""
_OPERATORS = frozenset(
    {
        "stateStoreSave",
        "dedupe",
        "dedupeWithinWatermark",
        "symmetricHashJoin",
        "sessionWindowStateStoreSaveExec",
    }
)


def find_obstacle(kept: QueryLayout | None) -> str:
    """Why state that is laid out so is not repartitioned, and what to do about it; "" if it can be.

    Args:
        kept: what the checkpoint says; None if it is written in a way that is not known.
    """
    if kept is None:
        return "its checkpoint has a format that is not known; another release of Spark wrote it"
    provider = kept.settings.get(STATE_STORE, "")
    if provider != ROCKSDB:
        return (
            f"it is kept by {provider.rpartition('.')[2] or 'an unknown state store'}, and Spark repartitions only "
            "state in RocksDB; give the stream another checkpoint and another sink to start over with RocksDB"
        )
    for operator in kept.operators:
        if operator.kind not in _OPERATORS:
            return (
                f"operator {operator.number} is {operator.words}, and only the state of aggregations, deduplications "
                "and joins of two streams is repartitioned; drop repartition_state"
            )
    return ""
