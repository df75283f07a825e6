"""docs/architecture.md shows the folders as they are, and names files that exist; folders say what they are for."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_abs"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
LISTING = PAGE.split("```text\nairflow_abs/")[1].split("```")[0]
NAMED = sorted(set(re.findall(r"`((?:airflow_abs/|tests/)?[a-z_]+(?:/[a-z_*]+)*\.py)`", PAGE)))


def folders_of_the_package() -> list[Path]:
    return sorted({path.parent for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE})


def test_the_listing_holds_every_folder_at_the_top_of_the_package_and_no_other() -> None:
    listed = re.findall(r"^    ([a-z_]+)/", LISTING, flags=re.MULTILINE)
    assert sorted(listed) == [path.name for path in folders_of_the_package() if path.parent == PACKAGE]


@pytest.mark.parametrize("folder", folders_of_the_package(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_every_folder_says_what_belongs_there(folder: Path) -> None:
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))


@pytest.mark.parametrize("name", NAMED)
def test_every_file_that_the_page_names_exists(name: str) -> None:
    places = (ROOT, PACKAGE)
    assert any(list(place.glob(name)) for place in places), f"docs/architecture.md names {name}, which is not there"


def test_the_page_names_enough_files_to_find_ones_way() -> None:
    assert len(NAMED) > 40
