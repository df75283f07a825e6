"""What every decision says about itself: its rule, its reason, the bounds that changed a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    """Base of all decisions: frozen values that carry their reason. `rule` is a short id, `reason` is for people."""

    rule: str
    reason: str


def apply_bound(name: str, decided: int, bound: int, clamps: list[Clamp], *, lower: bool) -> int:
    """Return `decided` moved to the bound if it is beyond it, and note the clamp."""
    used = max(decided, bound) if lower else min(decided, bound)
    if used != decided:
        clamps.append(Clamp(name, decided, bound, used))
    return used
