"""Small plans for the tests of spark/, as the bytes that an operation carries."""

from __future__ import annotations

from pathlib import Path

from airflow_abs.spark.connect.protocol import protos


def query(sql: str) -> bytes:
    """A relation whose rows come back."""
    proto = protos()
    return bytes(proto.Plan(root=proto.Relation(sql=proto.SQL(query=sql))).SerializeToString())


def write_parquet(sql: str, path: Path) -> bytes:
    """A write that fails if something is there already: doing it twice is seen."""
    proto = protos()
    plan = proto.Plan()
    write = plan.command.write_operation
    write.input.CopyFrom(proto.Relation(sql=proto.SQL(query=sql)))
    write.source, write.path = "parquet", str(path)
    write.mode = proto.WriteOperation.SaveMode.SAVE_MODE_ERROR_IF_EXISTS
    return bytes(plan.SerializeToString())


def read_parquet(schema: str, path: Path) -> bytes:
    """The rows of one file, with a schema, so that analysing it reads nothing."""
    proto = protos()
    plan = proto.Plan()
    source = plan.root.read.data_source
    source.format, source.schema = "parquet", schema
    source.paths.append(str(path))
    return bytes(plan.SerializeToString())


def sleep(seconds: float) -> bytes:
    """One row, after so long: a Spark task that costs no CPU and can be interrupted."""
    return query(f"SELECT reflect('java.lang.Thread', 'sleep', {int(seconds * 1000)}L + id) FROM range(0, 1, 1, 1)")
