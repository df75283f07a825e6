"""docs/reference/api.md quotes the docstrings as they are, of every public name."""

from __future__ import annotations

import re

import airflow_abs
from airflow_abs import tables, testing
from tests.docs import api_page


def test_the_page_quotes_the_docstrings_as_they_are() -> None:
    page = api_page.PAGE.read_text()
    assert page == api_page.written(page), "run: python -m tests.docs.api_page"


def test_every_public_name_has_a_heading() -> None:
    headings = re.findall(r"^### (.+)$", api_page.PAGE.read_text(), flags=re.MULTILINE)
    public = {*airflow_abs.__all__, *tables.__all__, *testing.__all__} - {"__version__"}
    assert public - {*headings} == set()
