"""What Airflow masks must not get into the exchange, whose files are there to be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_abs.core.errors import JobGraphError


def check_no_secrets(vertex: str, what: str, values: Mapping[str, Any], *, by_name: bool) -> None:
    """Refuse values that Airflow's masker knows as secrets.

    Args:
        vertex: whose they are, for the message.
        what: what they are, for example ``transform_kwargs``.
        values: rendered.
        by_name: whether a name alone, such as ``password``, makes a value a secret.

    Raises:
        JobGraphError: names the first.
    """
    from airflow.sdk._shared.secrets_masker import redact  # the one public way in is for log lines

    for name, value in values.items():
        shown = {name if by_name else "value": value}
        if redact(shown) != shown:
            raise JobGraphError(
                f"vertex {vertex!r}: {name!r} of its {what} is a secret that Airflow masks, and would be written to "
                "a readable file of the exchange; configure it on the Spark server, or let the function that needs it "
                "read it there"
            )
