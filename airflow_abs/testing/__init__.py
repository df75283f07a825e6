"""For authors' unit tests: run a declared job for real (plan, decide, run, commit) without any service of Airflow.

    def test_every_region_has_its_revenue() -> None:
        run = run_locally(revenue, parallelism=4, inputs={"orders": [{"customer_id": 1, "amount": 3}], ...})
        assert run["by_region"].rows.to_pylist() == [{"region": "north", "revenue": 3}]
        assert_same_at_any_parallelism(revenue, (1, 2, 7), inputs={...})

Importing it loads neither pyspark nor grpc: a test file may import it at its top.
"""

from __future__ import annotations

from airflow_abs.testing.local import LocalRun, VertexRun, assert_same_at_any_parallelism, run_locally
from airflow_abs.testing.table_sink import TableSinkContract
from airflow_abs.testing.table_source import TableSourceContract

__all__ = [
    "LocalRun",
    "TableSinkContract",
    "TableSourceContract",
    "VertexRun",
    "assert_same_at_any_parallelism",
    "run_locally",
]
