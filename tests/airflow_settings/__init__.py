"""What the Airflows of the tests are told."""

from __future__ import annotations

import os
from pathlib import Path

IMPORTED_ONCE = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])])
"""PYTHONPATH of an Airflow whose tasks find their imports done; with this tree, wherever it is."""
