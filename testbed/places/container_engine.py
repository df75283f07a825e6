"""A container engine of this testbed's own: Docker's daemon of this host, in namespaces that end with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from airflow_abs.demo.bound_child import start_bound, stop_group
from testbed.host import search_path
from testbed.places.place import FOLDER, PlaceError
from testbed.places.served import START_SECONDS

HOME = FOLDER / "compose"
PLUGINS = HOME / "client" / "cli-plugins"
PACKAGES = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "docker-init": "docker.io",
    "iptables-save": "iptables",
    "debootstrap": "debootstrap",
    "openssl": "openssl",
    "ip": "iproute2",
    "nsenter": "util-linux",
}
"""What it takes from this host: the Debian package of each program."""
_DATA = HOME / "engine"
_RUN = Path("/run/airflow-abs-compose")
_BRIDGE = "docker0"
_ITS_RULES = re.compile(rf"DOCKER|\b{_BRIDGE}\b|\bbr-[0-9a-f]{{12}}\b")
_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
_STOP_SECONDS = 60.0


def check_host() -> None:
    """Raises:
    PlaceError: containers cannot run here; the message says why and what to do.
    """
    missing = [name for name in PACKAGES if shutil.which(name, path=search_path()) is None]
    if missing:
        packages = sorted({PACKAGES[name] for name in missing})
        raise PlaceError(
            f"compose cannot run on this host: {', '.join(missing)} not found; install what brings them "
            f"(Debian: apt-get install --no-install-recommends {' '.join(packages)})"
        )
    namespaces = ["unshare", "--mount", "--pid", "--fork", "iptables-save"]
    tried = subprocess.run(namespaces, env=environment(), capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        raise PlaceError(
            "compose cannot run on this host: it may not make namespaces and rules of its network "
            f"({tried.stderr.strip()}); run it as root of a machine, not in a container"
        )
    if _link(_BRIDGE):
        raise PlaceError(
            f"compose cannot run on this host: it has a network {_BRIDGE} already, so another container engine runs; "
            "stop that one first"
        )


def environment() -> dict[str, str]:
    """Of Docker's client, for this engine."""
    return {
        **os.environ,
        "PATH": search_path(),
        "DOCKER_HOST": f"unix://{_RUN}/docker.sock",
        "DOCKER_CONFIG": str(PLUGINS.parent),
        "DOCKER_BUILDKIT": "0",
        "COMPOSE_PARALLEL_LIMIT": "2",
    }


@dataclass(frozen=True, slots=True)
class Engine:
    """One that runs; `first` is the process with whose end all of it ends."""

    first: int

    def ask(
        self, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """How Docker's client ended, and what it printed."""
        command, its_environment = ["docker", *arguments], {**environment(), **(env or {})}
        return subprocess.run(command, cwd=cwd, env=its_environment, capture_output=True, text=True, check=False)

    def run(self, *arguments: str, cwd: Path | None = None) -> str:
        """What Docker's client printed.

        Raises:
            PlaceError: it failed; with what it says.
        """
        done = self.ask(*arguments, cwd=cwd)
        if done.returncode != 0:
            said = (done.stdout + done.stderr)[-4000:]
            raise PlaceError(f"compose: docker {' '.join(arguments[:4])} ended with {done.returncode}: {said}")
        return done.stdout

    def kill(self, pid: int) -> None:
        """As a crash would end it: the engine takes `docker kill` for a stop by hand, and restarts nothing.

        Args:
            pid: as the engine names it, in its own namespace.
        """
        enter = ["nsenter", "--target", str(self.first), "--pid", "--mount"]
        subprocess.run([*enter, "kill", "-KILL", str(pid)], env=environment(), check=True)


@contextmanager
def running_engine() -> Iterator[Engine]:
    """It runs in the block; images and volumes stay in `build/places`, nothing else does.

    Raises:
        PlaceError: the host cannot, or the daemon does not answer in time; with the end of its log.
    """
    check_host()
    forwards, rules = _FORWARD.read_text(), _rules()
    _DATA.mkdir(parents=True, exist_ok=True)
    _RUN.mkdir(mode=0o700, exist_ok=True)
    # Whatever it starts is in its namespace of processes, and ends with the first one of them.
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "docker-init", "--"]
    daemon = ["dockerd", "--host", f"unix://{_RUN}/docker.sock", "--data-root", str(_DATA)]
    files = ["--exec-root", str(_RUN / "exec"), "--pidfile", str(_RUN / "pid")]
    log = HOME / "engine.log"
    with log.open("wb") as out:
        process = start_bound([*namespaces, *daemon, *files], env=environment(), log=out)
    try:
        yield _wait(process, log)
    finally:
        stop_group(process, _STOP_SECONDS)
        _restore_network(rules, forwards)
        shutil.rmtree(_RUN, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], log: Path) -> Engine:
    deadline = time.monotonic() + START_SECONDS
    while True:
        engine = Engine(_first_below(process.pid))
        if engine.first and engine.ask("info").returncode == 0:
            return engine
        if process.poll() is not None or time.monotonic() > deadline:
            raise PlaceError(f"dockerd does not answer; the end of {log}: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.2)


def _first_below(parent: int) -> int:
    """Its child in another namespace of processes; 0 as long as there is none."""
    below = subprocess.run(["pgrep", "-P", str(parent)], env=environment(), capture_output=True, text=True, check=False)
    ours = Path("/proc/self/ns/pid").readlink()
    with suppress(FileNotFoundError):  # one has just ended
        for each in below.stdout.split():
            if Path(f"/proc/{each}/ns/pid").readlink() != ours:
                return int(each)
    return 0


def _link(name: str) -> bool:
    return Path("/sys/class/net", name).exists()


def _rules() -> str:
    return subprocess.run(["iptables-save"], env=environment(), capture_output=True, text=True, check=True).stdout


def _restore_network(rules: str, forwards: str) -> None:
    """Without what the daemon leaves: its bridge, its rules, and that it lets nothing else be forwarded."""
    for link in [each.name for each in Path("/sys/class/net").iterdir() if _ITS_RULES.search(each.name)]:
        subprocess.run(["ip", "link", "delete", link], env=environment(), check=False)
    policies = dict(re.findall(r"^(:FORWARD) (\w+)", rules, re.MULTILINE)) or {":FORWARD": "ACCEPT"}
    kept = [line for line in _rules().splitlines() if not _ITS_RULES.search(line)]
    text = "\n".join(re.sub(r"^(:FORWARD) \w+", rf"\1 {policies[':FORWARD']}", line) for line in kept)
    subprocess.run(["iptables-restore"], env=environment(), input=f"{text}\n", text=True, check=True)
    with suppress(OSError):
        _FORWARD.write_text(forwards)
