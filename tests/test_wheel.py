"""What `pip install` brings, tried where nothing of the source tree can be imported."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

import pytest

from airflow_abs import __version__
from tests.installed_wheel import ROOT, InstalledWheel

pytestmark = [pytest.mark.slow, pytest.mark.sample]

TRACKED_SUFFIXES = {".py", ".js", ".css", ".html", ".txt"}
TYPED = Path("airflow_abs", "py.typed")


def run(wheel: InstalledWheel, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [wheel.program, *arguments]
    return subprocess.run(
        command, cwd=folder, env=wheel.environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_it_holds_the_package_the_example_dags_and_the_licence_and_nothing_else(installed: InstalledWheel) -> None:
    names = {Path(name) for name in ZipFile(installed.wheel).namelist()}
    metadata = {name for name in names if name.parts[0].endswith(".dist-info")}
    package = {path.relative_to(ROOT) for path in (ROOT / "airflow_abs").rglob("*") if path.suffix in TRACKED_SUFFIXES}
    examples = {Path("airflow_abs", "example_dags", path.name) for path in (ROOT / "dags").glob("*.py")}
    assert len(examples) == 5
    assert names - metadata == package | examples | {TYPED}
    assert "licenses/LICENSE" in {"/".join(name.parts[1:]) for name in metadata}


def test_a_package_index_accepts_wheel_and_sdist(installed: InstalledWheel) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", str(installed.wheel), str(installed.sdist)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_its_metadata_say_what_it_is(installed: InstalledWheel) -> None:
    (name,) = (name for name in ZipFile(installed.wheel).namelist() if name.endswith(".dist-info/METADATA"))
    metadata = message_from_string(ZipFile(installed.wheel).read(name).decode())
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    extras = {"cluster", "delta", "demo", "embedded", "iceberg", "java", "kubernetes", "postgres", "s3"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text()


def test_from_the_sdist_the_same_wheel_is_built(installed: InstalledWheel, tmp_path: Path) -> None:
    with tarfile.open(installed.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "again")]
    subprocess.run(command, cwd=source, capture_output=True, check=True, timeout=300)
    (again,) = (tmp_path / "again").glob("*.whl")
    assert again.read_bytes() == installed.wheel.read_bytes()


def test_the_image_is_built_from_all_that_the_wheel_is_built_from() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    copied = (ROOT / "docker" / "Dockerfile").read_text()
    let_in = (ROOT / ".dockerignore").read_text().splitlines()
    for name in [*build["packages"], *build["force-include"]]:
        assert f"COPY {name} /src/{name}\n" in copied
        assert f"!{name}" in let_in


def test_it_is_the_installed_package_that_runs(installed: InstalledWheel, tmp_path: Path) -> None:
    code = (
        "import airflow_abs, importlib.util; from airflow_abs.demo.example_dags import example_dags_folder; "
        "print(airflow_abs.__file__, example_dags_folder(), importlib.util.find_spec('testbed'), sep='\\n')"
    )
    done = subprocess.run(
        [installed.python, "-c", code],
        cwd=tmp_path,
        env=installed.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    package, examples, testbed = done.stdout.splitlines()
    environment = installed.python.parents[1]
    assert Path(package).is_relative_to(environment)
    assert Path(examples) == Path(package).with_name("example_dags")
    assert testbed == "None"


def test_help_names_the_commands_and_no_cluster(installed: InstalledWheel, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "--help")
    assert done.returncode == 0, done.stderr
    assert "airflow-abs demo --keep" in done.stdout
    assert "cluster" not in done.stdout


def test_it_makes_data_and_draws_an_example_dag(installed: InstalledWheel, tmp_path: Path) -> None:
    made = run(installed, tmp_path, "generate", "--out", "lake", "--dates", "2026-01-01", "--scale", "0.01")
    assert made.returncode == 0, made.stderr
    assert list((tmp_path / "lake" / "orders" / "ds=2026-01-01").glob("*.parquet"))
    (examples,) = installed.python.parents[1].glob("lib/python3*/site-packages/airflow_abs/example_dags")
    drawn = run(installed, tmp_path, "explain", str(examples / "pipelined.py"))
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout == (ROOT / "tests" / "cli" / "golden" / "file_pipelined.txt").read_text()
