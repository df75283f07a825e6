"""What the Airflows of the tests are told."""

from __future__ import annotations

from pathlib import Path

TREE = str(Path(__file__).parents[1])
"""For PYTHONPATH: with this tree, wherever it is."""

FOR_TESTS = {
    # Steps of the tests are small, and each is looked at.
    "AIRFLOW__ADAPTIVE_SPARK__CHAINING": "False",
    # A killed triggerer's triggers are taken over after 10 s instead of 30.
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
    "PYTHONPATH": TREE,
}
"""Environment of an Airflow that tests wait for."""
