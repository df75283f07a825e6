"""Which installation of Airflow this is: two of them may have DAGs and runs of the same names, and one table."""

from __future__ import annotations

import re
import uuid

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.settings import SECTION
from airflow_abs.settings import read_host_settings

VARIABLE = "airflow_abs_installation"
"""Airflow's Variable, which the first `plan` of an installation makes."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def read_installation() -> str:
    """The setting ``installation``, or else what the first `plan` has drawn.

    Raises:
        InvalidValueError: it is no short name.
    """
    from airflow.sdk import Variable

    name = read_host_settings().installation or Variable.get(VARIABLE, default=None)
    if not name:
        Variable.set(VARIABLE, uuid.uuid4().hex[:12], "Names this installation in the tables that its jobs publish to")
        name = Variable.get(VARIABLE)  # what another first plan has drawn in the same moment, if that came later
    if not _NAME.fullmatch(name):
        raise InvalidValueError(
            f"installation is {name!r}; expected up to 64 letters, digits, '_', '.' or '-'. Correct the Airflow option "
            f"[{SECTION}] installation, or the Variable {VARIABLE}"
        )
    return str(name)
