"""Read by every Airflow of the tests that has this folder on its PYTHONPATH.

That tasks import what they need by themselves is seen in the demo.
"""

from __future__ import annotations

import airflow_abs.preload  # noqa: F401 -- as users write it

__all__: list[str] = []  # else Airflow takes all names for settings of its own
