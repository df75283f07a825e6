"""The wheel as its users get it: built, and installed where nothing of this source tree can be imported."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tests.java_options import with_compiled_queries

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class InstalledWheel:
    """`wheel` and `sdist` are files, `python` the interpreter of the environment that the wheel is installed in."""

    wheel: Path
    sdist: Path
    python: Path

    @property
    def program(self) -> str:
        """The console script `airflow-abs`."""
        return str(self.python.with_name("airflow-abs"))

    @property
    def environment(self) -> dict[str, str]:
        """Of its processes: without this tree; with the programs of this environment, which dependencies bring. Its
        Spark compiles queries, as its users' does."""
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        path = os.pathsep.join([str(self.python.parent), sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
        return inherited | {"PATH": path, "JDK_JAVA_OPTIONS": with_compiled_queries(os.environ["JDK_JAVA_OPTIONS"])}


def install_wheel(folder: Path) -> InstalledWheel:
    """Build it and the sdist without a network, and install it in an environment that borrows this one's dependencies.

    They come by a `.pth` file, whose folder is searched without obeying the `.pth` files in it: an editable checkout
    of this project, which is one of them, is not found.
    """
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    offline = ["--quiet", "--no-index", "--no-deps"]
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(folder / "dist")])
    (wheel,), (sdist,) = ((folder / "dist").glob(kind) for kind in ("*.whl", "*.tar.gz"))
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")])
    python = folder / "venv" / "bin" / "python"
    _run([*pip, "--python", str(python), "install", *offline, str(wheel)])
    (packages,) = (folder / "venv").glob("lib/python3*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return InstalledWheel(wheel, sdist, python)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
