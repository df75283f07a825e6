"""What every Java that a test starts is told. Servers, drivers and executors inherit it."""

from __future__ import annotations

import os

# Only the quick compiler: they are young and their data small, and the thorough one took two fifths of their CPU. It
# has a small code cache unless told otherwise, and stops compiling when that is full. Spark starts `chmod` for every
# local file and folder that it writes, 20,000 times in the corpus, and need not start another program for each of them.
QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "
    "-XX:MetaspaceSize=512m -Djdk.lang.Process.launchMechanism=VFORK"
)
# Spark interprets a query instead of writing Java for it and compiling that, which takes longer than to run it on a few
# rows. What users install is tested with compiled queries, and `make test-proof` compiles all of them.
INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"


def java_options() -> str:
    """For JDK_JAVA_OPTIONS, with what the caller has there."""
    own = "" if os.environ.get("AIRFLOW_ABS_GENERATED_CODE") else INTERPRETED
    return " ".join(filter(None, [os.environ.get("JDK_JAVA_OPTIONS"), QUICK, own]))


def with_compiled_queries(options: str) -> str:
    """The same for a Spark as users have it."""
    return options.replace(INTERPRETED, "").strip()
