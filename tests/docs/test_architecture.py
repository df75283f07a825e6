"""docs/architecture.md shows the folders as they are, and names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_abs"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
LISTING = PAGE.split("```text\nairflow_abs/")[1].split("```")[0]
NAMED = sorted(set(re.findall(r"`((?:airflow_abs/|tests/)?[a-z_]+(?:/[a-z_*]+)*\.py)`", PAGE)))


def folders_of_the_listing() -> set[str]:
    """Paths below the package, read from the indentation of the listing."""
    found, above = set(), ""
    for line in LISTING.splitlines():
        match = re.match(r"( +)([a-z_]+)/", line)
        if match and len(match[1]) <= 4:
            above = match[2]
            found.add(above)
        elif match:
            found.add(f"{above}/{match[2]}")
    return found


def test_the_listing_holds_every_folder_of_the_package_and_no_other() -> None:
    folders = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE}
    assert folders_of_the_listing() == folders


@pytest.mark.parametrize("name", NAMED)
def test_every_file_that_the_page_names_exists(name: str) -> None:
    places = (ROOT, PACKAGE)
    assert any(list(place.glob(name)) for place in places), f"docs/architecture.md names {name}, which is not there"


def test_the_page_names_enough_files_to_find_ones_way() -> None:
    assert len(NAMED) > 40
