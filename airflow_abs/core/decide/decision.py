"""What a decision says about itself: inputs, reason, bounds that changed a number; in words and as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Clamp:
    """One bound that changed a decided number: what was decided, the bound, what is used instead."""

    name: str
    decided: int
    bound: int
    used: int

    def __str__(self) -> str:
        return f"{self.name} {self.bound}: decided {self.decided}, used {self.used}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"name": self.name, "decided": self.decided, "bound": self.bound, "used": self.used}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Clamp:
        """Inverse of `to_json`."""
        return cls(data["name"], data["decided"], data["bound"], data["used"])


@dataclass(frozen=True, slots=True)
class Decision:
    """Base of all decisions: frozen values that carry what they rest on. `rule` is a short id, `reason` for people."""

    rule: str
    reason: str

    def describe(self) -> str:
        """For people: rule and reason first, then all the rest, a line each."""
        rest = [f"  {name}: {value}" for name, value in self.to_json().items() if name not in ("rule", "reason")]
        return "\n".join([f"{self.rule}: {self.reason}", *rest])

    def to_json(self) -> dict[str, Any]:
        """Plain values: what `json.dumps` takes."""
        return {field.name: to_plain(getattr(self, field.name)) for field in fields(self)}


def to_plain(value: Any) -> Any:
    """Dataclasses and mappings as dicts, sequences as lists, everything else as it is."""
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): to_plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(entry) for entry in value]
    return value


def apply_bound(name: str, decided: int, bound: int, clamps: list[Clamp], *, lower: bool) -> int:
    """Return `decided` moved to the bound if it is beyond it, and note the clamp."""
    used = max(decided, bound) if lower else min(decided, bound)
    if used != decided:
        clamps.append(Clamp(name, decided, bound, used))
    return used
