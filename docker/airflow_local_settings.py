"""Airflow reads this when it starts: what tasks import is imported once, by the process that forks them."""

import airflow_abs.preload  # noqa: F401
