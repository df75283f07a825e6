"""What the Airflows of the tests are told."""

from __future__ import annotations

import os
from pathlib import Path

IMPORTED_ONCE = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])])
"""PYTHONPATH of an Airflow whose tasks find their imports done; with this tree, wherever it is."""

FOR_TESTS = {
    # A scheduler looks at every task instance of every active run each time: a fifth of a core at the demo's 0.3 s.
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    # A killed triggerer's triggers are taken over after 10 s instead of 30.
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
    "PYTHONPATH": IMPORTED_ONCE,
}
"""Environment of an Airflow that tests wait for."""
