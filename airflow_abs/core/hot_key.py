"""The key behind a hot subpartition, in words: what it is, and what can be done about it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.core.wording import format_bytes

DOMINANT_SHARE = 0.3
"""Of the rows in a subpartition; a key with fewer does not make it hot by itself."""
VALUE_CHARACTERS = 80
"""So much of a value is stored and shown."""


@dataclass(frozen=True, slots=True)
class HotKey:
    """The most frequent key of a hot subpartition, in a sample of its rows.

    `input` is that of the region, which holds `bytes` there; `median` is that of its subpartitions which hold any.
    `columns` and `values` are the key's, a value None for NULL. Of `rows_seen` rows `rows` have it.
    """

    input: str
    subpartition: int
    bytes: int
    median: int
    columns: tuple[str, ...]
    values: tuple[str | None, ...]
    rows: int
    rows_seen: int

    @property
    def share(self) -> float:
        return self.rows / self.rows_seen if self.rows_seen else 0.0

    @property
    def key(self) -> str:
        """``customer_id = 17``, ``region = EU, day = NULL``."""
        pairs = zip(self.columns, self.values, strict=True)
        return ", ".join(f"{column} = {'NULL' if value is None else value}" for column, value in pairs)

    def describe(self) -> str:
        where = f"subpartition {self.subpartition} of {self.input.rpartition('.')[2]}"
        times = self.bytes / max(1, self.median)
        return (
            f"{where} holds {format_bytes(self.bytes)}, {times:,.0f} times the median: {self.key} has "
            f"{self.share:.0%} of the {self.rows_seen:,} sampled rows"
        )

    def advise(self, *, shared: bool, kept_whole: str | None) -> str:
        """What to do. `shared`: several subtasks read it already; `kept_whole`: why they may not (empty: unknown), None
        if they may."""
        if self.share < DOMINANT_SHARE:
            return "no single key makes it hot: a higher max_parallelism puts its keys into finer subpartitions"
        if shared:
            return "its rows are distributed to several subtasks already: nothing has to be done"
        if kept_whole is None:
            return (
                "it may be distributed, but a parallelism of the vertex, strategy='power_of_two' or a low "
                "max_parallelism leaves no room for that"
            )
        if all(value is None for value in self.values):
            return (
                "rows without a key meet no other row in a join: leave them out before this edge, or give them a step "
                "of their own"
            )
        why = f", since {kept_whole}" if kept_whole else ""
        return (
            f"it is not distributed{why}: move an earlier join into a step of its own, where its rows are distributed "
            f"automatically; aggregate by {', '.join(self.columns)} and another column first; or handle this value in "
            "a step of its own"
        )
