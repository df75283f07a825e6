"""What the tests of publishing share: staged files, and what readers see of a target."""

from __future__ import annotations

import re
from collections.abc import Sequence

from airflow_abs.exchange.publish.publication import StagedFile
from airflow_abs.exchange.publish.record import is_data_file
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import write_atomic

EXTENSION = "-c000.lz4raw.parquet"


class KilledError(Exception):
    """Raised at a step in place of a kill."""


def stage(root: ExchangePath, contents: Sequence[str], attempt: int = 1) -> list[StagedFile]:
    staged = []
    for k, content in enumerate(contents):
        name = f"by_region/subtask-{k}/attempt-{attempt}/sink/part-0{EXTENSION}"
        path = root / "staged" / f"attempt-{attempt}" / f"subtask-{k}" / f"part-0{EXTENSION}"
        write_atomic(path, content.encode())
        staged.append(StagedFile(path, name, len(content.encode()), rows=1))
    return staged


def visible(target: ExchangePath) -> list[str]:
    """The contents that a reader of the folder sees, sorted."""
    location = locate(target)
    location.forget_listings()
    names = [location.at(path).relative_to(location) for path in location.fs.find(location.path)]
    return sorted(bytes(location.fs.cat_file((location / name).path)).decode() for name in names if is_data_file(name))


def leftovers(target: ExchangePath) -> list[str]:
    """Names beside and in the target that are neither data nor records."""
    location = locate(target).parent.parent
    names = [location.at(path).relative_to(location) for path in location.fs.find(location.path)]
    ours = [name for name in names if not name.startswith("staged/") and not is_data_file(name)]
    kept = re.compile(r".*/(_SUCCESS|_airflow_abs_commit|_airflow_abs_commits/\d{8})")
    return sorted(name for name in ours if not kept.fullmatch(name))
