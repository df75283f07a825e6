"""Jars that the package `pyspark` lacks, of S3's file system and of Kafka's source: no more than these need.

`spark.jars.packages` would bring all that they name, for S3 a bundle of 700 MB. `jars/NAME.txt` lists what is enough
with Spark's own jars, each with its checksum, as it was run with a release line of Spark.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from airflow_abs.spark.server.cache_folder import cache_folder

CONNECTORS = ("s3", "kafka")
SPARK = "4.2.0"
"""Whose jars these are unless another release is named."""
SETTINGS = {
    "s3": {
        # Hadoop's magic committer uploads each file to where it belongs and copies nothing: half the requests, and no
        # byte moved twice.
        "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
        "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
        "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": (
            "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
        ),
        "spark.hadoop.fs.s3a.committer.name": "magic",
        "spark.hadoop.fs.s3a.committer.magic.track.commits.in.memory.enabled": "true",
        # The paths of an attempt are new, so nothing has to be checked before a file or a folder is made.
        "spark.hadoop.fs.s3a.performance.flags": "create,mkdir,delete",
    },
    "kafka": {},
}
"""What a server with these jars should be told, by connector."""
_FOLDER = Path(__file__).parent / "jars"
_LISTS = {
    "s3": {"4.1": "s3-4.1", "4.2": "s3", "4.3": "s3"},  # Hadoop 3.4.2, then 3.5.0: its jars fit no other release of it
    "kafka": {"4.2": "kafka"},
}
"""By connector and release line of Spark."""
_DEPENDENCY = (
    "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)
_PROJECT = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>jars</groupId><artifactId>jars</artifactId>"
    "<version>1</version><dependencies>{dependencies}</dependencies></project>"
)


class JarsMissingError(RuntimeError):
    """The jars of a connector cannot be had."""

    restartable: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Jar:
    """One of Maven's artifacts; `sha256` in hexadecimal."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


def list_jars(connector: str, spark: str = SPARK) -> tuple[Jar, ...]:
    """What a connector of `CONNECTORS` needs beside the jars of a release of Spark.

    Raises:
        JarsMissingError: it was not run with that release line.
    """
    lists = _LISTS[connector]
    line = ".".join(spark.split(".")[:2])
    if line not in lists:
        raise JarsMissingError(
            f"no list of the jars of {connector} for Spark {spark}; expected a release of {', '.join(lists)}; run "
            "one of these, or start the server with spark.jars.packages"
        )
    return read_list(_FOLDER / f"{lists[line]}.txt")


def read_list(path: Path) -> tuple[Jar, ...]:
    """Of lines with a checksum and a coordinate."""
    lines = path.read_text().splitlines()
    words = [line.replace(":", " ").split() for line in lines]
    return tuple(Jar(group, name, version, sha256) for sha256, group, name, version in words)


def fetch_jars(
    connector: str, environment: Mapping[str, str], folder: Path | None = None, spark: str = SPARK
) -> tuple[Path, ...]:
    """Let Maven put them into `folder` (without one: below this user's cache), but for those that are there.

    Raises:
        JarsMissingError: there is no list for that Spark, Maven is missing or cannot get them, or one is not what the
            list says.
    """
    folder = folder or cache_folder(environment) / "jars" / f"{connector}-{spark}"
    return fetch_listed(f"the jars of {connector}", list_jars(connector, spark), folder, environment)


def fetch_listed(what: str, wanted: Sequence[Jar], folder: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The same for any list; `what` it is, for messages."""
    missing = [jar for jar in wanted if not _is_right(folder / jar.file, jar)]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=".") as made:
            _copy(missing, Path(made), environment)
            for jar in missing:
                if not _is_right(Path(made) / jar.file, jar):
                    raise JarsMissingError(
                        f"{what}: {jar.group}:{jar.name}:{jar.version} is not the file that was "
                        "tested (its SHA-256 is another one); expected the one of Maven's central repository; correct "
                        "the mirror in Maven's settings.xml"
                    )
                (Path(made) / jar.file).replace(folder / jar.file)
    return tuple(folder / jar.file for jar in wanted)


def _copy(wanted: Sequence[Jar], folder: Path, environment: Mapping[str, str]) -> None:
    """These and nothing that they depend on."""
    dependencies = "".join(_DEPENDENCY.format(group=jar.group, name=jar.name, version=jar.version) for jar in wanted)
    maven = shutil.which("mvn", path=environment.get("PATH", os.defpath))
    if maven is None:
        raise JarsMissingError(
            "mvn is not on PATH; Maven fetches the jars; install it (Debian: apt-get install maven), or run this on "
            "another host and copy the folder"
        )
    with TemporaryDirectory() as project:
        pom = Path(project) / "pom.xml"
        pom.write_text(_PROJECT.format(dependencies=dependencies))
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder.absolute()}"]
        command = [maven, "--batch-mode", "--quiet", "--file", str(pom), *goal]
        ended = subprocess.run(command, env=dict(environment), stdin=subprocess.DEVNULL, check=False)
    if ended.returncode != 0:
        raise JarsMissingError(
            f"Maven ended with {ended.returncode}; expected it to get {len(wanted)} artifacts; fix what it reports "
            "above (its mirror and proxy are in settings.xml)"
        )


def _is_right(path: Path, jar: Jar) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256
