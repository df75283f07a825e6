"""The documentation site, which `make docs` builds with Sphinx.

Its root is the repository, not this folder: README, CHANGELOG and the pages here are built where they lie, so that a
link between two of them holds in the repository and on the site.
"""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from airflow_abs import __version__
from airflow_abs.cli.main import main

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
os.environ["COLUMNS"] = "100"  # where the help of commands is broken into lines

project = "airflow_abs"
author = "airflow_abs contributors"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [".*", "airflow_abs", "benchmarks", "build", "dags", "dist", "docker", "testbed", "tests"]

myst_heading_anchors = 4  # the anchors that a forge gives to headings

default_role = "code"  # docstrings write `names` as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"airflow_abs {release}"
html_copy_source = False
html_extra_path = ["site"]


class CommandHelp(SphinxDirective):
    """What `airflow-abs COMMAND --help` prints."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([self.arguments[0], "--help"])
        text = printed.getvalue().replace(f"{ROOT}/", "")  # a default that is a folder of this checkout
        return [nodes.literal_block(text, text, language="text")]


def setup(app: Sphinx) -> None:
    app.add_directive("command-help", CommandHelp)
