"""The process that owns the embedded Spark server: `python -m airflow_abs.spark.server.embedded_keeper FOLDER`.

It detaches from its starter, holds the folder's keeper lock for as long as it lives, starts the JVM, and ends
with it. The kernel kills the JVM when the keeper dies, however it dies: nothing is ever left behind.
It ends the server on SIGTERM, when no process has needed it for a while, or when the folder is gone.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from airflow_abs.spark.access.tokens import AIRFLOWS_VARIABLES
from airflow_abs.spark.server.class_archive import find_class_archive
from airflow_abs.spark.server.embedded_state import (
    EmbeddedSettings,
    ServerState,
    StateFolder,
    open_state_folder,
    process_start,
    write_private,
)
from airflow_abs.spark.server.free_ports import choose_free_ports
from airflow_abs.spark.server.java import choose_heap, find_java_home, read_memory
from airflow_abs.spark.server.parent_death import end_with_parent
from airflow_abs.spark.server.whole_spark import find_spark_home, spark_submit

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
WHOSE = "the embedded Spark server"
# A batch wants throughput: G1's concurrent threads and barriers cost a tenth of the CPU (docs/evidence).
JAVA_OPTIONS = "-XX:+UseParallelGC"
ANOTHER_KEEPER = 3
_LOOK_SECONDS = 0.5
_TAKE_SECONDS = 2.0
_ESTABLISHED = "01"
_LOG_SETTINGS = """\
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


def spark_properties(
    settings: EmbeddedSettings, folder: StateFolder, state: ServerState, java_option: str = ""
) -> dict[str, str]:
    """Everything that the server is started with. What keeps it on loopback and private cannot be overruled."""
    work = folder.path / "work"
    cores = settings.cores or os.cpu_count() or 1
    suggested = {
        "spark.master": f"local[{settings.cores or '*'}]",
        "spark.app.name": "airflow-abs embedded Spark",
        "spark.driver.memory": settings.driver_memory or choose_heap(cores, read_memory()),
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile=file:{folder.path}/conf/log4j2.properties",
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {java_option}".rstrip(),
        "spark.ui.enabled": str(settings.ui).lower(),
        "spark.ui.port": str(state.ui_port),
        "spark.scheduler.mode": "FAIR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{work}/warehouse",
        # The triggerer or a worker may be away for a while; what it started continues.
        "spark.connect.execute.manager.detachedTimeout": "2h",
        "spark.connect.session.manager.defaultSessionTimeout": "24h",
        # One subtask that runs out of memory must not take the server of all others with it.
        "spark.executor.killOnFatalError.depth": "0",
    }
    fixed = {
        "spark.local.dir": f"{work}/local",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(state.port),
        "spark.connect.grpc.port.maxRetries": "0",
        "spark.connect.authenticate.token": state.token,
    }
    return suggested | dict(settings.conf) | fixed


def server_environment(conf_folder: Path, java_home: Path) -> dict[str, str]:
    """The environment of the JVM and its Python workers: ours without other Sparks' settings and Airflow's secrets."""
    foreign = ("SPARK_", "PYSPARK_", *AIRFLOWS_VARIABLES)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return kept | {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(find_spark_home(WHOSE)),
        "SPARK_CONF_DIR": str(conf_folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def main(path: str) -> int:
    """Become the keeper of the folder. The parent returns once the lock is held; the detached child runs on."""
    folder = open_state_folder(path)
    lock = os.open(folder.keeper_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _take(lock):
        return ANOTHER_KEEPER
    os.ftruncate(lock, 0)  # no number of a predecessor, which may be another process by now
    if os.fork() != 0:
        return 0  # the child has the same lock
    os.pwrite(lock, f"{os.getpid()} {process_start(os.getpid())}\n".encode(), 0)
    return _keep(folder)


def _take(lock: int) -> bool:
    """Whether the lock is ours now. Who only looks whether it is free holds it for a moment: hence the patience."""
    deadline = time.monotonic() + _TAKE_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_TAKE_SECONDS / 100)
        else:
            return True


def _keep(folder: StateFolder) -> int:
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    server = _start_server(folder)
    settings = folder.read_settings()
    try:
        _watch(folder, server, settings.idle_seconds, stopping)
    finally:
        folder.delete_state()
        _stop(server, settings.stop_timeout)
        _clear_work(folder)
    return 0


def _start_server(folder: StateFolder) -> subprocess.Popen[bytes]:
    settings, java_home = folder.read_settings(), find_java_home()
    archive = find_class_archive(java_home, find_spark_home(WHOSE), os.environ)
    folder.delete_state()
    _clear_work(folder)
    port, ui_port = choose_free_ports(2)
    state = ServerState(
        port=port,
        token=secrets.token_urlsafe(32),
        jvm_pid=0,
        started=time.time(),
        ui_port=ui_port if settings.ui else 0,
    )
    (folder.path / "conf").mkdir(mode=0o700, exist_ok=True)
    log_settings = _LOG_SETTINGS.format(level=settings.log_level, log=folder.log)
    write_private(folder.path / "conf" / "log4j2.properties", log_settings)
    # Not on the command line, which every user of the host can read.
    properties = folder.path / "conf" / "spark.properties"
    values = spark_properties(settings, folder, state, archive.using_it if archive is not None else "")
    write_private(properties, "".join(f"{key} {_escape(value)}\n" for key, value in values.items()))
    submit = spark_submit(WHOSE)
    with folder.output.open("ab") as output:
        server = subprocess.Popen(
            [submit, "--properties-file", properties, "--class", SERVER_CLASS, "spark-internal"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder.path / "work",
            # All that the server is told is on its command line; the folder where Spark looks besides may be empty.
            env=server_environment(folder.path / "conf" if archive is None else archive.conf_folder, java_home),
            start_new_session=True,
            preexec_fn=end_with_parent(os.getpid(), signal.SIGKILL),  # noqa: PLW1509  (this process has one thread)
        )
    folder.write_state(replace(state, jvm_pid=server.pid))
    return server


def _watch(
    folder: StateFolder, server: subprocess.Popen[bytes], idle_seconds: float, stopping: threading.Event
) -> None:
    """Until the server ends, is not needed any more, or is told to stop."""
    state = folder.read_state()
    last_connected = time.monotonic()
    while state is not None and server.poll() is None and not stopping.wait(_LOOK_SECONDS):
        if has_connection(state.port):
            last_connected = time.monotonic()
        idle = min(time.monotonic() - last_connected, folder.lease_age())
        if idle > idle_seconds or not folder.path.exists():
            return


def has_connection(port: int) -> bool:
    """Whether anybody on this host holds a TCP connection to the port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                columns = line.split()
                if int(columns[1].rpartition(":")[2], 16) == port and columns[3] == _ESTABLISHED:
                    return True
    return False


def _stop(server: subprocess.Popen[bytes], timeout: float) -> None:
    server.terminate()
    try:
        server.wait(timeout)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _clear_work(folder: StateFolder) -> None:
    work = folder.path / "work"
    shutil.rmtree(work, ignore_errors=True)
    with suppress(OSError):  # the folder itself may be gone
        work.mkdir(mode=0o700)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
