"""In `plan`: of a vertex's output only what its consumers need is written, as far as Spark's planner can tell.

Nothing here may change the rows of a sink.
"""

from airflow_abs.spark.narrowing.columns_and_rows import narrow_vertices
from airflow_abs.spark.narrowing.partial_aggregates import combine_edges

__all__ = ["combine_edges", "narrow_vertices"]
