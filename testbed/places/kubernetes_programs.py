"""What the node of Kubernetes runs: its programs, built by Go, and an image of Spark, made from Debian's packages."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path
from tempfile import TemporaryDirectory

from airflow_abs.spark.connect.protocol import pyspark_folder
from testbed.host import search_path
from testbed.places.place import FOLDER, PlaceError

SCRIPTS = Path(__file__).parent / "kubernetes_node"
HOME = FOLDER / "kubernetes"
PROGRAMS, IMAGES, MODULES = HOME / "programs", HOME / "images", HOME / "modules"
"""`MODULES` is a folder for PYTHONPATH: Airflow's provider of Kubernetes."""
RELEASE = "1.34.4"
PAUSE_IMAGE = "airflow-abs.test/pause:1"
SPARK_IMAGE = "airflow-abs.test/spark:1"
PROXY_IMAGE = "airflow-abs.test/nginx:1"
DEBIAN = {"containerd": "containerd", "ctr": "containerd", "runc": "runc", "iptables": "iptables"} | {
    "debootstrap": "debootstrap",
    "conntrack": "conntrack",
    "curl": "curl",
    "etcd": "etcd-server",
    "openssl": "openssl",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}
"""What a node takes from this host: the Debian package of each program."""
_BUILT = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
"""The tools of go.mod."""
_VERSION = "k8s.io/component-base/version"
_SUITES = {(3, 11): "bookworm", (3, 13): "trixie"}
"""Debian's release by its Python, which must be that of this environment: functions travel between the two."""
_OF_DEBIAN = ("default-jre-headless", "python3", "tini", "procps")
_WITH_PROXY = "trixie"
"""Bookworm's nginx is older than the `http2` that newer ones want."""
_SPARKS_USER = "spark:x:185:0:Spark:/tmp:/usr/sbin/nologin\n"
"""As in Spark's own images."""
_PYTHON = (
    *("py4j", "pandas", "numpy", "pyarrow", "python-dateutil", "pytz", "tzdata", "six", "zstandard"),
    *("grpcio", "grpcio-status", "protobuf", "googleapis-common-protos"),
)
"""Beside pyspark, what its workers import: copied from this environment."""


def check_host() -> None:
    """Raises:
    PlaceError: a node cannot run here; the message says why and what to do.
    """
    if sys.version_info[:2] not in _SUITES:
        raise PlaceError(
            f"kubernetes cannot run on this host: no Debian has Python {sys.version_info[0]}.{sys.version_info[1]}; "
            f"use an environment with {' or '.join('.'.join(map(str, each)) for each in _SUITES)}"
        )
    missing = [name for name in (*DEBIAN, "go") if shutil.which(name, path=search_path()) is None]
    if missing:
        packages = sorted({DEBIAN[name] for name in missing if name in DEBIAN})
        raise PlaceError(
            f"kubernetes cannot run on this host: {', '.join(missing)} not found; install what brings them "
            f"(Debian: apt-get install {' '.join(packages)}; Go 1.26 or newer)"
        )
    namespaces = ["unshare", "--net", "--mount", "--pid", "--fork", "ip", "link", "add", "probe", "type", "bridge"]
    environment = {**os.environ, "PATH": search_path()}
    tried = subprocess.run(namespaces, env=environment, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        raise PlaceError(
            "kubernetes cannot run on this host: it may not make namespaces and bridges "
            f"({tried.stderr.strip()}); run it as root of a machine, not in a container"
        )


def is_fetched() -> bool:
    wanted = (PROGRAMS / name for name in _BUILT)
    return all(each.exists() for each in (*wanted, *(IMAGES / f"{name}.tar" for name in _IMAGES), MODULES))


def fetch() -> None:
    """Build what is missing.

    Raises:
        PlaceError: the host cannot, or a build failed.
    """
    check_host()
    for folder in (PROGRAMS, IMAGES):
        folder.mkdir(parents=True, exist_ok=True)
    if not all((PROGRAMS / name).exists() for name in _BUILT):
        _build()
    if not MODULES.exists():
        _install_provider()
    for name, make in _IMAGES.items():
        if not (IMAGES / f"{name}.tar").exists():
            with TemporaryDirectory(dir=HOME) as temporary:
                make(Path(temporary), IMAGES / f"{name}.tar")


def _build() -> None:
    version = (("gitVersion", f"v{RELEASE}"), ("gitMajor", "1"), ("gitMinor", RELEASE.split(".")[1]))
    flags = " ".join(["-s -w", *(f"-X {_VERSION}.{name}={value}" for name, value in version)])
    command = ["go", "build", "-trimpath", "-ldflags", flags, "-o", str(PROGRAMS), "tool"]
    _run(command, cwd=SCRIPTS, CGO_ENABLED="0", GOFLAGS="-mod=readonly -buildvcs=false")


def _install_provider() -> None:
    listed = Path(__file__).parent / "kubernetes.txt"
    with TemporaryDirectory(dir=HOME) as made:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", made]
        _run([*pip, "--requirement", str(listed)])
        shutil.copytree(made, MODULES)


def _make_pause(temporary: Path, archive: Path) -> None:
    root = temporary / "root"
    root.mkdir()
    source = SCRIPTS / "image" / "pause.go"
    _run(["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(root / "pause"), str(source)], CGO_ENABLED="0")
    write_image(archive, PAUSE_IMAGE, [root], ["/pause"])


def _make_spark(temporary: Path, archive: Path) -> None:
    """Debian with Java and Python, then this environment's Spark and what its Python workers import."""
    system, spark = temporary / "system", temporary / "spark"
    _make_system(system, _SUITES[sys.version_info[:2]], _OF_DEBIAN)
    with (system / "etc" / "passwd").open("a") as passwd:
        passwd.write(_SPARKS_USER)
    modules = spark / f"usr/local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/dist-packages"
    modules.mkdir(parents=True)
    shutil.copytree(pyspark_folder(), spark / "opt" / "spark", ignore=shutil.ignore_patterns("__pycache__", "examples"))
    (modules / "pyspark").symlink_to("/opt/spark")
    for name in _PYTHON:
        _copy_distribution(name, modules)
    shutil.copy(SCRIPTS / "image" / "entrypoint.sh", spark / "opt" / "entrypoint.sh")
    write_image(archive, SPARK_IMAGE, [system, spark], ["/opt/entrypoint.sh"], "/opt/spark")


def _make_proxy(temporary: Path, archive: Path) -> None:
    _make_system(temporary / "system", _WITH_PROXY, ("nginx-light",))
    write_image(archive, PROXY_IMAGE, [temporary / "system"], [])


def _make_system(folder: Path, suite: str, packages: Sequence[str]) -> None:
    """Debian with these packages."""
    _run(["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", suite, str(folder)])
    for unneeded in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man"):
        shutil.rmtree(folder / unneeded, ignore_errors=True)


_IMAGES: Mapping[str, Callable[[Path, Path], None]] = {
    "pause": _make_pause,
    "spark": _make_spark,
    "nginx": _make_proxy,
}


def _copy_distribution(name: str, folder: Path) -> None:
    """Without its programs, which lie elsewhere."""
    for each in distribution(name).files or ():
        if ".." not in each.parts and "__pycache__" not in each.parts:
            target = folder / each
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(str(each.locate())), target)


def write_image(
    archive: Path, name: str, layers: Iterable[Path], entrypoint: Sequence[str], workdir: str = "/"
) -> None:
    """An archive that `ctr images import` takes, with a layer for each folder; it is there once it is whole."""
    unfinished = archive.with_suffix(".part")
    hashes = []
    with tarfile.open(unfinished, "w") as out:
        for folder in layers:
            layer = unfinished.with_suffix(".layer")
            _run(["tar", "--numeric-owner", "--owner=0", "--group=0", "-C", str(folder), "-cf", str(layer), "."])
            with layer.open("rb") as file:
                hashes.append(hashlib.file_digest(file, "sha256").hexdigest())
            out.add(layer, f"{hashes[-1]}/layer.tar")
            layer.unlink()
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": [path], "Entrypoint": list(entrypoint), "WorkingDir": workdir},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{each}" for each in hashes]},
        }
        manifest = {"Config": "config.json", "RepoTags": [name], "Layers": [f"{each}/layer.tar" for each in hashes]}
        for path, content in (("config.json", config), ("manifest.json", [manifest])):
            raw = json.dumps(content).encode()
            entry = tarfile.TarInfo(path)
            entry.size = len(raw)
            out.addfile(entry, io.BytesIO(raw))
    unfinished.replace(archive)


def _run(command: Sequence[str], cwd: Path | None = None, **env: str) -> None:
    environment = {**os.environ, "PATH": search_path(), **env}
    done = subprocess.run(command, cwd=cwd, env=environment, check=False)
    if done.returncode != 0:
        raise PlaceError(f"kubernetes: {command[0]} ended with {done.returncode}; see what it says")
