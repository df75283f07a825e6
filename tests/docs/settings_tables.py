"""The tables of docs/reference/settings.md, from the fields of the settings: `python -m tests.docs.settings_tables`
writes them anew."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from airflow_abs.core.settings import JobSettings as Job
from airflow_abs.core.settings import Setting, VertexOptions, Where, section_settings, settings_of
from airflow_abs.operators.adaptive_spark import Edge

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
_TABLE = re.compile(r"(<!-- (job|vertex|edge) -->\n\n)(?:\|.*\n)*")
_PLACES = {Where.SECTION: "section", Where.JOB: "job", Where.JOB_OPTIONS: "`JobOptions`"}
_MOST = {Where.SECTION, Where.JOB_OPTIONS}
"""Where most settings are set: the page says so once."""


def written(page: str) -> str:
    """The page with its tables as they have to be."""
    job = {name: each for name, each in settings_of(Job) if name not in section_settings()}
    tables = {
        "job": _table(section_settings() | job, with_places=True),
        "vertex": _table(dict(settings_of(VertexOptions))),
        "edge": _table(dict(settings_of(Edge))),
    }
    return _TABLE.sub(lambda found: found[1] + tables[found[2]], page)


def _table(settings: Mapping[str, Setting], *, with_places: bool = False) -> str:
    columns = ["setting", "default", "meaning", *(["set in"] if with_places else [])]
    rows = [columns, ["---"] * len(columns)]
    for name, each in settings.items():
        row = [f"`{name}`", f"`{each.default}`" if each.default else "", _meaning(each)]
        rows.append([*row, _places(each)] if with_places else row)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _places(setting: Setting) -> str:
    return "" if set(setting.where) == _MOST else ", ".join(_PLACES[place] for place in setting.where)


def _meaning(setting: Setting) -> str:
    return setting.sentence + (f" [More](../{setting.more})" if setting.more else "")


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
