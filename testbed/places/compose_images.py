"""The images that the compose file starts from, made of Debian's packages: the testbed's engine has no registry."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from testbed.places.container_engine import HOME, PLUGINS, Engine, check_host, environment, running_engine
from testbed.places.place import PlaceError

RECIPES = Path(__file__).parent / "compose_images"
BASES = {"bookworm": "airflow-abs.test/bookworm", "trixie": "airflow-abs.test/trixie"}
"""By the release of Debian; trixie for what bookworm has too old: nginx, and Compose itself."""
IMAGES = {
    "python": "python:3.11-slim-bookworm",
    "postgres": "postgres:15-bookworm",
    "redis": "redis:7-bookworm",
    "nginx": "nginx:1.28-bookworm",
}
"""By their recipe: the names in docker-compose.yaml and docker/Dockerfile."""
_MADE = HOME / "images"
_AUTHORITIES = Path("/usr/local/share/ca-certificates")
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


def is_fetched() -> bool:
    return all((_MADE / name).exists() for name in (*BASES, *IMAGES)) and (PLUGINS / "docker-compose").exists()


def fetch() -> None:
    """Make what is missing, in an engine that ends with this.

    Raises:
        PlaceError: the host cannot, or an image is not made.
    """
    check_host()
    if is_fetched():
        return
    _MADE.mkdir(parents=True, exist_ok=True)
    with running_engine() as engine:
        for suite, tag in BASES.items():
            if not (_MADE / suite).exists():
                _make_base(engine, suite, tag)
                (_MADE / suite).touch()
        for recipe, tag in IMAGES.items():
            if not (_MADE / recipe).exists():
                print(f"compose: making {tag}", flush=True)
                engine.run("build", "--network", "host", "--tag", tag, str(RECIPES / recipe))
                (_MADE / recipe).touch()


def _make_base(engine: Engine, suite: str, tag: str) -> None:
    """A minimal Debian with this host's settings of apt and pip and its own certificate authorities."""
    print(f"compose: making {tag} by debootstrap", flush=True)
    with TemporaryDirectory(dir=HOME) as made:
        root = Path(made) / "root"
        _run(["debootstrap", "--variant=minbase", "--include=ca-certificates,curl,procps", suite, str(root)])
        settings = _run(["apt-config", "dump", "Acquire"]) if shutil.which("apt-config") else ""
        (root / "etc/apt/apt.conf.d/99host").write_text(settings)
        (root / "etc/pip.conf").write_text(_pip_settings())
        if _AUTHORITIES.is_dir():
            shutil.copytree(_AUTHORITIES, root / _AUTHORITIES.relative_to("/"), dirs_exist_ok=True)
        _run(["chroot", str(root), "update-ca-certificates"])
        if suite == "trixie":
            _unpack_compose(root)
        for unneeded in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man"):
            shutil.rmtree(root / unneeded, ignore_errors=True)
            (root / unneeded).mkdir()
        archive = Path(made) / "root.tar"
        _run(["tar", "--numeric-owner", "-C", str(root), "-cf", str(archive), "."])
        engine.run("import", "--change", 'CMD ["bash"]', str(archive), tag)


def _unpack_compose(root: Path) -> None:
    """Compose v2, which bookworm has not; the program runs there."""
    _run(["chroot", str(root), "sh", "-c", "apt-get update -q && cd /tmp && apt-get download -q docker-compose"])
    (package,) = (root / "tmp").glob("docker-compose_*.deb")
    _run(["dpkg-deb", "-x", str(package), str(root / "tmp" / "unpacked")])
    (program,) = (root / "tmp" / "unpacked").rglob("cli-plugins/docker-compose")
    PLUGINS.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, PLUGINS / "docker-compose")
    for each in (root / "tmp").iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


def _pip_settings() -> str:
    """What pip takes from this host's files and variables, but for folders of this host."""
    told = _run([sys.executable, "-m", "pip", "config", "list"])
    pairs = (line.partition("=")[::2] for line in told.splitlines() if "=" in line)
    found = {name.rpartition(".")[2]: value.strip("'\"") for name, value in pairs}
    kept = {name: value for name, value in found.items() if name not in {"find-links", "cert", "cache-dir"}}
    lines = ["[global]", f"cert = {_BUNDLE}", *(f"{name} = {value}" for name, value in sorted(kept.items()))]
    return "".join(f"{line}\n" for line in lines)


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(
        command,
        env={**environment(), "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise PlaceError(f"compose: {command[0]} ended with {done.returncode}: {done.stdout[-2000:]}")
    return done.stdout
