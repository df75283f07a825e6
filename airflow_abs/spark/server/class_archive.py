"""The classes of Spark's server, parsed and verified once per host: Java's class data sharing (JEP 310, JEP 350).

More than half of the CPU of a server's start and first job is loading classes from 270 jars. `make_class_archive` has a
server write those that it needed into an archive of some 200 MB; every later server maps it. Java checks that jars and
its own build are those of the archive, and else starts without it.

<cache>/airflow_abs/classes/     0700, ours alone: the contents of an archive run as the user who maps it
    <key>.jsa                    of one Java and one Spark
    conf/                        empty: the class path begins with Spark's conf folder, and it must be the same for all
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_abs.spark.server.cache_folder import cache_folder

_SUFFIX = ".jsa"
# Each puts folders of the host's own onto the class path, and Java archives classes from jars alone.
_OTHER_CLASS_PATHS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_ARCHIVE_OF_JAVA = Path("lib/server/classes.jsa")
_KEPT = 3


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Where the archive of one Java and one Spark is or would be."""

    path: Path

    @property
    def conf_folder(self) -> Path:
        """For SPARK_CONF_DIR: empty."""
        return self.path.parent / "conf"

    @property
    def using_it(self) -> str:
        """The Java option of a server; "" if there is no archive."""
        return f'"-XX:SharedArchiveFile={self.path}"' if self.path.is_file() else ""

    @property
    def temporary(self) -> Path:
        """Where this process has it written: whole or not at all."""
        return self.path.with_name(f".{self.path.name}.{os.getpid()}")

    @property
    def making_it(self) -> str:
        """The Java option of a server that writes it when it ends."""
        return f'"-XX:ArchiveClassesAtExit={self.temporary}"'

    def take_over(self) -> None:
        """What a server has written is the archive from now on. The oldest of other Sparks are deleted.

        Raises:
            OSError: it has written none.
        """
        self.temporary.replace(self.path)
        made = sorted(self.path.parent.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
        for path in made[:-_KEPT]:
            path.unlink(missing_ok=True)


def find_class_archive(java_home: Path, spark_home: Path, environment: Mapping[str, str]) -> ClassArchive | None:
    """The archive of this Java and this Spark, whether or not it was made.

    None where a server must do without one: its Java has no archive of its own classes, on which this one builds, its
    class path holds folders of the host's own, or there is no cache folder that belongs to this user alone.
    """
    if any(environment.get(name) for name in _OTHER_CLASS_PATHS):
        return None
    folder = cache_folder(environment) / "classes"
    try:
        (folder / "conf").mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
            return None
        folder.chmod(0o700)
        is_empty = not any((folder / "conf").iterdir())
        key = _key(java_home, spark_home)
    except OSError:
        return None
    is_plain = not set(str(folder)) & set('"\\')  # it is quoted in a list of options
    return ClassArchive(folder / f"{key}{_SUFFIX}") if is_empty and is_plain else None


def _key(java_home: Path, spark_home: Path) -> str:
    """Another Java or other jars are another archive: Java would refuse the old one at every start."""
    files = [java_home / _ARCHIVE_OF_JAVA, *sorted((spark_home / "jars").glob("*.jar"))]
    told = [f"{file} {found.st_size} {found.st_mtime_ns}" for file in files for found in [file.stat()]]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
