from __future__ import annotations

from typing import Any

import pytest

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.hooks.ephemeral import Ephemeral


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start_timeout": 0}, "Ephemeral: start_timeout is 0; expected a number of seconds above 0"),
        ({"lifetime": -1}, "Ephemeral: lifetime is -1; expected a number of seconds above 0"),
        ({"conf": {"spark.eventLog.dir": "/x"}}, "Ephemeral: conf sets spark.eventLog.dir, which the package sets"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Ephemeral(**options)
    assert str(caught.value).startswith(message)
