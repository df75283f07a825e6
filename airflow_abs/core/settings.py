"""What an author may set, besides what a vertex does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexOptions:
    """How one vertex runs; all of it may be left out.

    Args:
        parallelism: fixed number of subtasks; by default it is decided.
        max_parallelism: the vertex's own bound, and the number of subpartitions its inputs are cut into.
        schema: what the vertex promises to return, as DDL, such as ``"region STRING, revenue DECIMAL(18,2)"``: `plan`
            compares names, types and ``NOT NULL`` with what Spark says of the transform.
        spark_conf: Spark's session settings for it, in `plan` and in all subtasks; they take precedence over the job's.
        join: ``inner``, ``left``, ``right``, ``full``, ``semi`` or ``anti``, if the transform joins its two hash inputs
            so and does nothing else that needs all rows of a key: then a hot key may be spread over several subtasks.
        deterministic: False if the transform gives other rows when it runs again on the same input: then lost output is
            not recomputed, and the run fails instead.
        per_subtask: True if what the transform makes of a subtask's part is wanted as it is (a partial total, some rows
            of each): then `plan` asks for no proof that all parts together are the result for the whole.
    """

    parallelism: int | None = None
    max_parallelism: int | None = None
    schema: str | None = None
    spark_conf: Mapping[str, Any] = field(default_factory=dict)
    join: str | None = None
    deterministic: bool = True
    per_subtask: bool = False
