"""Makes the class archive of this host: a server of its own runs a job of every kind of step, and stores its classes
when it ends."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.server.class_archive import ClassArchive, find_class_archive
from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_keeper import JAVA_OPTIONS, WHOSE
from airflow_abs.spark.server.embedded_state import EmbeddedSettings, EmbeddedSparkError
from airflow_abs.spark.server.java import find_java_home
from airflow_abs.spark.server.whole_spark import find_spark_home

_WRITING_SECONDS = 300.0  # a quiet host writes it in 6
_ROWS = 1000


def make_class_archive() -> ClassArchive:
    """Write it if it is not there. Running servers keep what they have. Blocks for half a minute.

    Raises:
        EmbeddedSparkError: this host cannot have one, or the server did not start or write it.
        SparkMissingError, JavaMissingError: there is no Spark or no Java for it.
    """
    archive = find_class_archive(find_java_home(), find_spark_home(WHOSE), os.environ)
    if archive is None:
        raise EmbeddedSparkError(
            "embedded Spark: no archive of classes can be made on this host; expected a Java with "
            "lib/server/classes.jsa (that of the extra 'java' has none), a cache folder that belongs to this user "
            "(XDG_CACHE_HOME, or ~/.cache), and neither HADOOP_CONF_DIR nor YARN_CONF_DIR to be set; servers start "
            "without an archive"
        )
    if archive.using_it:
        return archive
    options = ("spark.driver.extraJavaOptions", f"{JAVA_OPTIONS} {archive.making_it}")
    settings = EmbeddedSettings(cores=2, conf=(options,), stop_timeout=_WRITING_SECONDS)
    with TemporaryDirectory(prefix="airflow-abs-prepare-") as name:
        state = Path(name, "spark")
        try:
            _run_steps(ensure_embedded_server(state, settings=settings), Path(name))
            stop_embedded_server(state)
            _take_over(archive, state / "server.out")
        finally:
            stop_embedded_server(state)
            archive.temporary.unlink(missing_ok=True)
    return archive


def _take_over(archive: ClassArchive, output: Path) -> None:
    try:
        archive.take_over()
    except OSError as error:
        told = output.read_text(errors="replace").strip().splitlines()[-3:]
        raise EmbeddedSparkError(
            f"embedded Spark: its server wrote no archive of classes to {archive.temporary}: {error.strerror}; "
            f"its JVM printed {' | '.join(told) or 'nothing'}; servers start without an archive"
        ) from error


def _run_steps(endpoint: ConnectEndpoint, folder: Path) -> None:
    """What jobs are made of: files in and out, joins, aggregates, windows, functions in Python, rows to the client."""
    from pyspark.sql import functions

    from airflow_abs.spark.connect.session import open_session

    with open_session(endpoint) as session:
        halved = functions.udf(lambda number: number / 2, "double")
        ids = session.range(_ROWS).selectExpr(
            "id", "id % 7 AS key", "cast(id AS decimal(12, 2)) AS price", "current_timestamp() AS at", "'a' AS word"
        )
        for kind in ("parquet", "json", "csv"):
            ids.write.partitionBy("key").format(kind).save(f"{folder}/{kind}")
        items = session.read.parquet(f"{folder}/parquet").repartition(4, "key").sortWithinPartitions("key", "id")
        keys = session.createDataFrame([{"key": 1, "name": "one"}, {"key": 2, "name": "two"}])
        items = items.mapInArrow(lambda batches: batches, items.schema)
        items.createOrReplaceTempView("items")
        ranked = session.sql("SELECT *, row_number() OVER (PARTITION BY key ORDER BY id) AS rank FROM items")
        joined = ranked.join(functions.broadcast(keys), "key", "left").withColumn("half", halved("id"))
        for total in (
            joined.groupBy("key").agg(functions.sum("price"), functions.countDistinct("id"), functions.max("half")),
            ranked.select("id", "word").hint("merge").join(joined.select("id", "half"), "id").groupBy("word").count(),
            joined.orderBy("id").limit(10),
        ):
            total.write.parquet(f"{folder}/total", mode="overwrite")
            total.toArrow()
