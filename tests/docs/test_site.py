"""The documentation site, built as `make docs` builds it: a warning of Sphinx is an error."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

import airflow_abs
from airflow_abs import testing
from airflow_abs.cli.main import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RECIPE = re.search(r"^docs:.*\n\t\$\(BIN\)/python (-m sphinx .+) build/site$", (ROOT / "Makefile").read_text(), re.M)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert RECIPE is not None
    folder = tmp_path_factory.mktemp("docs")
    arguments = RECIPE[1].replace("build/doctrees", str(folder / "doctrees")).split()
    done = subprocess.run(
        [sys.executable, *arguments, str(folder / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


@cache
def attributes(page: Path, name: str) -> set[str]:
    return set(map(html.unescape, re.findall(rf'\b{name}="([^"]*)"', page.read_text())))


def test_every_page_of_the_repository_is_on_it(site: Path) -> None:
    pages = {path.relative_to(ROOT) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))}
    assert len(pages) > 20
    assert [str(page) for page in sorted(pages) if not (site / page).with_suffix(".html").exists()] == []


def test_no_link_of_it_leads_nowhere(site: Path) -> None:
    pages = [site / "index.html", *(page for page in site.rglob("*.html") if "_static" not in page.parts)]
    wrong = []
    for page in pages:
        for target in attributes(page, "href") | attributes(page, "src"):
            if re.match(r"[a-z]+:|#$", target):
                continue
            path, _, anchor = unquote(target).partition("#")
            file = page.parent / path.partition("?")[0] if path else page
            if not file.is_file() or (anchor and anchor not in attributes(file, "id")):
                wrong.append(f"{page.relative_to(site)}: {target}")
    assert wrong == []


def test_reading_it_asks_no_other_host(site: Path) -> None:
    loaded = {
        tag for page in site.rglob("*.html") for tag in re.findall(r"<(?:script|img|link)\b[^>]*>", page.read_text())
    }
    assert len(loaded) > 10
    assert [tag for tag in sorted(loaded) if re.search(r'(?:src|href)="(?:https?:)?//', tag)] == []


def test_the_reference_has_every_public_name(site: Path) -> None:
    described = attributes(site / "docs" / "reference" / "api.html", "id")
    public = [name for name in (*airflow_abs.__all__, *testing.__all__) if name != "__version__"]
    assert [name for name in public if name.lower() not in described] == []


def test_the_reference_has_every_command(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    ([a-z]+)(?: |$)", capsys.readouterr().out.split("\ncommands:\n")[1], flags=re.M)
    page = (site / "docs" / "reference" / "commands.html").read_text()
    assert len(commands) > 5
    assert re.findall(r"usage: airflow-abs ([a-z]+)", page) == re.findall(r'<section id="([a-z]+)">', page)[1:]
    assert set(re.findall(r"usage: airflow-abs ([a-z]+)", page)) == set(commands)
    assert str(ROOT) not in page
