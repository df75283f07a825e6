"""Where the example DAGs are: in `dags/` of the source tree, in `example_dags/` of an installed package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def example_dags_folder() -> Path:
    """The folder of their files. Building the wheel copies `dags/` into the package (`pyproject.toml`)."""
    installed = _PACKAGE / "example_dags"
    return installed if installed.is_dir() else _PACKAGE.parent / "dags"
