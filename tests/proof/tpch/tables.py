"""TPC-H's tables as its generator makes them, at a hundredth of its smallest scale: 60,000 line items."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_abs.demo.generate import find_tpchgen

if TYPE_CHECKING:
    import pyarrow as pa

_SCALE = "0.01"


def build_tables() -> dict[str, pa.Table]:
    """Every table by name."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory(prefix="tpch-") as folder:
        command = [find_tpchgen(), "parquet", "--scale-factor", _SCALE, "--output-dir", folder, "--quiet"]
        subprocess.run(command, check=True, timeout=60)
        return {path.stem: pq.read_table(path) for path in sorted(Path(folder).glob("*.parquet"))}
