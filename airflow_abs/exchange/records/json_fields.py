"""Read the fields of a JSON object that another process wrote, with a clear error for each that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from airflow_abs.exchange.errors import DamagedFileError


@dataclass(frozen=True, slots=True)
class JsonFields:
    """One JSON object; `where` is the file and the way to the object in it. All readers raise DamagedFileError."""

    values: Mapping[str, Any]
    where: str
    path: str = ""

    def text(self, key: str) -> str:
        value = self._get(key)
        return value if isinstance(value, str) else self.refuse(key, "a string", value)

    def integer(self, key: str, minimum: int = 0) -> int:
        value = self._get(key)
        if _is_int(value) and value >= minimum:
            return int(value)
        return self.refuse(key, f"an integer of at least {minimum}", value)

    def number(self, key: str) -> float:
        value = self._get(key)
        if (_is_int(value) or isinstance(value, float)) and value >= 0:
            return float(value)
        return self.refuse(key, "a number of at least 0", value)

    def sizes(self, key: str) -> tuple[int, ...]:
        value = self._get(key)
        # thousands of numbers in a manifest: the loop is in C; a bool's type is not int
        if isinstance(value, list | tuple) and set(map(type, value)) <= {int} and min(value, default=0) >= 0:
            return tuple(value)
        return self.refuse(key, "a list of integers of at least 0", value)

    def objects(self, key: str) -> list[JsonFields]:
        """A list of objects."""
        value = self._get(key)
        if not isinstance(value, list | tuple):
            return self.refuse(key, "a list of objects", value)
        return [self._child(f"{key}[{position}]", item) for position, item in enumerate(value)]

    def named_objects(self, key: str) -> dict[str, JsonFields]:
        """An object of objects."""
        value = self._get(key)
        if not isinstance(value, dict):
            return self.refuse(key, "an object of objects", value)
        return {name: self._child(f"{key}.{name}", item) for name, item in value.items()}

    def refuse(self, key: str, expected: str, found: object) -> NoReturn:
        """Raise DamagedFileError for one field."""
        shown = repr(found)
        raise DamagedFileError(
            f"{self.where}: field {key!r}: expected {expected}, found {shown[:80]}; the file was not written by this "
            "version of airflow_abs: clear the task that writes it",
            path=self.path,
        )

    def _child(self, key: str, value: object) -> JsonFields:
        if not isinstance(value, dict):
            return self.refuse(key, "an object", value)
        return JsonFields(value, f"{self.where} {key}", self.path)

    def _get(self, key: str) -> Any:
        if key not in self.values:
            raise DamagedFileError(
                f"{self.where}: field {key!r} is missing; the file was not written by this version of airflow_abs: "
                "clear the task that writes it",
                path=self.path,
            )
        return self.values[key]


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
