"""The inputs of a region in numbers, as its decision shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from airflow_abs.core.decide.region_inputs import BlockingInput, SourceInput
from airflow_abs.core.wording import format_bytes, format_count


@dataclass(frozen=True, slots=True)
class InputSummary:
    """One input in numbers. `kind` is its partitioning or `source`; `parts` are producer subtasks or splits.

    `files` are those of all producer subtasks of a rescale input, None for other kinds.
    """

    name: str
    kind: str
    bytes: int
    parts: int
    subpartitions: int | None = None
    files: int | None = None

    @classmethod
    def of_input(cls, entry: BlockingInput) -> InputSummary:
        """Of a finished upstream result."""
        rows = entry.bytes_by_partition
        kind, size = entry.partitioning.value, sum(map(sum, rows))
        if entry.is_rescale:
            return cls(entry.name, kind, size, len(rows), files=len(entry.file_bytes))
        return cls(entry.name, kind, size, len(rows), entry.subpartitions)

    @classmethod
    def of_source(cls, source: SourceInput) -> InputSummary:
        """Of files from outside."""
        return cls(source.name, "source", sum(source.split_bytes), len(source.split_bytes))

    def to_json(self) -> dict[str, Any]:
        """Plain values; `files` only where they are, so that a decision made before they were known stays the same."""
        return {name: value for name, value in asdict(self).items() if name != "files" or value is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> InputSummary:
        """Inverse of `to_json`."""
        return cls(**data)

    def __str__(self) -> str:
        size = format_bytes(self.bytes)
        producers = f"from {format_count(self.parts, 'subtask')}"
        match self.kind:
            case "source":
                return f"source {self.name}: {size} in {format_count(self.parts, 'split')}"
            case "broadcast":
                return f"input {self.name} (broadcast): {size}, read whole by every subtask"
            case "rescale":
                return f"input {self.name} (rescale): {size} {producers} in {format_count(self.files or 0, 'file')}"
        place = format_count(self.subpartitions or 0, "subpartition")
        return f"input {self.name} ({self.kind}): {size} {producers} in {place}"
