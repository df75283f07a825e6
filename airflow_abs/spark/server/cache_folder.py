"""Where this host's user keeps what can be made again, by the rules of freedesktop.org."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Ours, below XDG_CACHE_HOME or else ~/.cache; it need not be there."""
    cache = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME') or Path.home()}/.cache"
    return Path(cache).absolute() / "airflow_abs"
