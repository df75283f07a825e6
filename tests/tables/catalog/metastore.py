"""A catalog in memory that understands the statements that a publication sends, and no other, so that it can be ended
at every one of them thousands of times. What they mean on Spark and on Hive is tested by the contract, and on Derby."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_abs.tables.catalog.partitions import folder_of
from airflow_abs.tables.catalog.statements import StoredFile
from tests.tables.catalog.recorded import RECORDED, SCHEMA

Values = tuple[str | None, ...]

_ESCAPE = re.compile(r"\\u([0-9a-f]{4})")
_TEXT = r"'((?:[^'])*)'"
_VALUE = re.compile(rf"`(?:[^`]|``)+` = (?:NULL|{_TEXT})")
_CLAUSE = re.compile(r"PARTITION \(((?:`[^`]+` = (?:NULL|'[^']*')(?:, )?)+)\)(?: LOCATION '([^']*)')?")


_HIDDEN = re.compile("(?i)secret|password|token|access[.]?key|url")


@dataclass
class MemoryMetastore:
    """One table, below `folder`; its properties, location and partitions (values to location) are there to be seen."""

    folder: Path
    columns: Sequence[str] = ()
    properties: dict[str, str] = field(default_factory=dict)
    partitions: dict[Values, str] = field(default_factory=dict)
    location: str = ""
    created: str = "2026-11-23T02:18:14Z"

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.location = f"file:{self.folder}"

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        if statement.startswith("SHOW PARTITIONS"):
            return [(folder_of(self.columns, values),) for values in self.partitions]
        if statement.startswith("SELECT"):  # how Spark writes the values: none is a number here
            return [(number, *values) for number, values in enumerate(self.partitions)]
        assert statement.startswith("DESCRIBE TABLE EXTENDED"), statement
        told = {
            **RECORDED,
            "location": self.location,
            "table_properties": {name: _shown(name, text) for name, text in self.properties.items()},
            "created_time": self.created,
        }
        if clauses := _clauses(statement):
            told["location"] = self.partitions[clauses[0][0]]
        return [(json.dumps({**told, "partition_columns": list(self.columns)}),)]

    def run(self, statement: str) -> None:
        _, _, change = statement.partition("ALTER TABLE `d`.`t` ")
        texts = [_unescape(text) for text in re.findall(_TEXT, change)]
        match change.split(maxsplit=2)[:2]:
            case ["SET", "TBLPROPERTIES"]:
                self.properties = {**self.properties, texts[0]: texts[1]}
            case ["UNSET", _]:
                self.properties = {name: text for name, text in self.properties.items() if name not in texts}
            case ["SET", "LOCATION"]:
                self.location = texts[0]
            case ["ADD", _]:
                for values, where in _clauses(change):
                    self.partitions.setdefault(values, where)
            case ["DROP", _]:
                for values, _ in _clauses(change):
                    self.partitions.pop(values, None)
            case _:
                ((values, _),) = _clauses(change)
                assert values in self.partitions
                self.partitions[values] = texts[-1]

    def schema(self, table: str) -> str:
        listed = [*SCHEMA, *((column, "string") for column in self.columns)]
        fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in listed]
        return json.dumps({"type": "struct", "fields": fields})

    def list_files(self, folders: Sequence[str]) -> list[StoredFile]:
        found = []
        for folder in folders:
            for path in sorted(Path(folder.removeprefix("file:")).rglob("*")):
                inside = path.relative_to(folder.removeprefix("file:")).parts
                if path.is_file() and not any(part.startswith(("_", ".")) for part in inside):
                    found.append(StoredFile(f"file:{path}", path.stat().st_size, int(path.stat().st_mtime * 1000)))
        return found

    def ids(self) -> list[tuple[int, str | None]]:
        """The rows that readers see: `id`, and the value of the partition column, if there is one."""
        places = self.partitions if self.columns else {(None,): self.location}
        found = [
            (row["id"], values[0])
            for values, where in places.items()
            for file in self.list_files([where])
            if file.folder == where
            for row in pq.read_table(file.path.removeprefix("file:")).to_pylist()
        ]
        return sorted(found, key=str)

    def add(self, *ids: int, to: str | None = None) -> None:
        """Rows of another writer, in a file of its own."""
        place = self.partitions.setdefault((to,), f"{self.location}/day={to}") if self.columns else self.location
        folder = Path(place.removeprefix("file:"))
        folder.mkdir(parents=True, exist_ok=True)
        rows = pa.table({"id": pa.array(ids, pa.int64()), "Name": ["other"] * len(ids)})
        pq.write_table(rows, folder / f"other-{len(list(folder.iterdir()))}.parquet")


def _shown(name: str, text: str) -> str:
    """As Spark shows properties: what could be a secret is hidden."""
    return "*********(redacted)" if _HIDDEN.search(name) or _HIDDEN.search(text) else text


def _clauses(statement: str) -> list[tuple[Values, str]]:
    return [
        (tuple(None if "NULL" in each[0] and not each[1] else _unescape(each[1]) for each in _values(inside)), place)
        for inside, place in ((found[1], _unescape(found[2] or "")) for found in _CLAUSE.finditer(statement))
    ]


def _values(inside: str) -> list[tuple[str, str]]:
    return [(found[0], found[1] or "") for found in _VALUE.finditer(inside)]


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
