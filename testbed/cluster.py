"""`python -m testbed cluster`: the services of `docker-compose.yaml` as processes of this host; up, status, down."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from airflow_abs.demo.example_dags import example_dags_folder

START_SECONDS = 600.0
STOP_SECONDS = 90.0
NOT_RUNNING = 1
_POLL_SECONDS = 0.2
# Where `-m testbed` is found.
_ROOT = Path(__file__).parents[1]
_REVIVE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What `cluster.json` holds: the process that owns the services, whether all are up, and where they are."""

    pid: int
    up: bool
    ports: dict[str, int]
    dags_folder: str


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What the user chose: where the DAG files are, and what to add to the environment of Airflow's services."""

    dags_folder: Path
    env: tuple[tuple[str, str], ...] = ()


def add_cluster(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    cluster = commands.add_parser(
        "cluster",
        help="the cluster of docker-compose.yaml as processes of this host",
        description="PostgreSQL, Redis, a Spark master with two workers and a Connect server behind TLS, and Airflow "
        "with Celery and two triggerers, all on loopback, all state in one folder.",
    )
    actions = cluster.add_subparsers(title="actions", metavar="ACTION", required=True)
    up = actions.add_parser("up", help="start everything that is not running; returns when all is healthy")
    up.add_argument("--foreground", action="store_true", help="stay, and end everything on Ctrl-C or when killed")
    up.add_argument("--dags-folder", type=Path, default=example_dags_folder(), help="DAG files (default: %(default)s)")
    up.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=_variable,
        help="for Airflow's services; repeat",
    )
    up.set_defaults(run=lambda options: cluster_up(_folder(options), _chosen(options), options.foreground))
    status = actions.add_parser("status", help="run every service's health check; exit status 0 if all are healthy")
    status.set_defaults(run=lambda options: cluster_status(_folder(options)))
    down = actions.add_parser("down", help="end everything; the data stay and are used again")
    down.set_defaults(run=lambda options: cluster_down(_folder(options)))
    for action in (up, status, down):
        action.add_argument("--folder", type=Path, help="where its state is (default: one of this user)")


def cluster_up(folder: Path, chosen: ClusterOptions, foreground: bool) -> int:
    """0 once all is healthy (in the foreground: when it was ended), 1 if it did not come up."""
    folder.mkdir(parents=True, exist_ok=True)
    if foreground:
        return _keep(folder, chosen)
    if not _is_running(folder) and not _start_in_background(folder, chosen):
        return 1
    state = _read(folder)
    if state is None or not state.up:
        print(f"the cluster of {folder} is starting or ending just now; try again", file=sys.stderr)
        return 1
    print(f"the cluster is up\n{_addresses(state)}")
    return 0


def cluster_status(folder: Path) -> int:
    """Print what each health check says; 0 if all are healthy."""
    from testbed.folder import place_of
    from testbed.processes import check_all

    state = _read(folder)
    if state is None or not _is_running(folder):
        print(f"no cluster is running (folder {folder})")
        return NOT_RUNNING
    said = check_all(place_of(folder, Path(state.dags_folder), state.ports))
    for name, problem in said.items():
        print(f"  {name:<16}{'healthy' if problem is None else problem}")
    print(_addresses(state))
    return 0 if not any(said.values()) else 1


def cluster_down(folder: Path) -> int:
    """0 when nothing runs any more."""
    state = _read(folder)
    if state is None or not _is_running(folder):
        print(f"no cluster was running (folder {folder})")
        return 0
    # The kernel tells the services to end when their owner has been killed; what ignores it has had its time.
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 5.0)):
        os.kill(state.pid, number)
        if _await_end(folder, seconds):
            print("the cluster is down")
            return 0
    print(f"process {state.pid} does not exit; kill it by hand", file=sys.stderr)
    return 1


def _keep(folder: Path, chosen: ClusterOptions) -> int:
    """Own the services until a signal comes."""
    from airflow_abs.cli.output.terminal import Terminal
    from airflow_abs.demo.signals import ended_by_signals
    from testbed.processes import ClusterProcesses

    with _lock(folder), ended_by_signals(), Terminal() as terminal:
        cluster = ClusterProcesses(folder, chosen.dags_folder, env=dict(chosen.env), report=terminal.step)
        state = ClusterState(os.getpid(), False, dict(cluster.place.ports), str(chosen.dags_folder))
        try:
            _write(folder, state)
            with cluster:
                terminal.step("three days of example data")
                cluster.run("example-data")
                _write(folder, ClusterState(**(asdict(state) | {"up": True})))
                terminal.show(f"\nthe cluster is up; Ctrl-C ends it\n{_addresses(state)}")
                while True:
                    time.sleep(_REVIVE_SECONDS)
                    for name in cluster.revive():
                        terminal.step(f"{name} had ended and is started again")
        finally:
            (folder / "cluster.json").unlink(missing_ok=True)
    return 0


def _start_in_background(folder: Path, chosen: ClusterOptions) -> bool:
    """Start its owner in a session of its own, show what that says, and wait until all is up; whether it is."""
    command = [sys.executable, "-m", "testbed", "cluster", "up", "--foreground"]
    arguments = ["--folder", str(folder), "--dags-folder", str(chosen.dags_folder)]
    arguments += [word for name, value in chosen.env for word in ("--env", f"{name}={value}")]
    output = folder / "cluster.log"
    with output.open("wb") as log:
        owner = subprocess.Popen(
            [*command, *arguments],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    shown, deadline = 0, time.monotonic() + START_SECONDS
    try:
        while owner.poll() is None and time.monotonic() < deadline:
            shown = _show(output, shown)
            state = _read(folder)
            if state is not None and state.up and state.pid == owner.pid:
                return True
            time.sleep(_POLL_SECONDS)
    except BaseException:
        owner.terminate()
        owner.wait(STOP_SECONDS)
        raise
    owner.terminate()
    owner.wait(STOP_SECONDS)
    _show(output, shown)
    return False


def _show(output: Path, start: int) -> int:
    """Print what has been added since `start`; returns the end."""
    text = output.read_bytes()
    ended = text.rfind(b"\n") + 1
    sys.stdout.write(text[start:ended].decode(errors="replace"))
    sys.stdout.flush()
    return max(start, ended)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Held by the one process that owns the cluster of the folder; the kernel gives it back however that ends."""
    from testbed.folder import ClusterError

    with (folder / "cluster.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(
                f"a cluster runs in {folder} already; `python -m testbed cluster down` ends it, or name another folder"
            ) from None
        yield


def _is_running(folder: Path) -> bool:
    if not (folder / "cluster.lock").exists():
        return False
    with (folder / "cluster.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _await_end(folder: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while _is_running(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _read(folder: Path) -> ClusterState | None:
    try:
        return ClusterState(**json.loads((folder / "cluster.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _write(folder: Path, state: ClusterState) -> None:
    temporary = folder / ".cluster.json"
    temporary.write_text(json.dumps(asdict(state), indent=2) + "\n")
    temporary.replace(folder / "cluster.json")


def _addresses(state: ClusterState) -> str:
    return (
        f"  Airflow       http://127.0.0.1:{state.ports['api-server']}\n"
        f"  Spark master  http://127.0.0.1:{state.ports['spark-master-ui']}\n"
        f"  Spark Connect sc://127.0.0.1:{state.ports['connect-tls']} (TLS, token)"
    )


def _chosen(options: argparse.Namespace) -> ClusterOptions:
    return ClusterOptions(options.dags_folder.absolute(), tuple(options.env))


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} sets no variable; expected NAME=VALUE")
    return name, value


def _folder(options: argparse.Namespace) -> Path:
    from testbed.folder import default_folder

    return (options.folder or default_folder()).absolute()
