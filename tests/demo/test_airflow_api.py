from __future__ import annotations

import pytest

from airflow_abs.demo.airflow_api import AirflowApi, AirflowApiError


def test_a_server_that_is_not_there_is_told() -> None:
    api = AirflowApi("http://127.0.0.1:9", timeout=5)
    try:
        with pytest.raises(
            AirflowApiError, match=r"GET /importErrors at http://127.0.0.1:9: no answer: .*is Airflow up\?"
        ):
            api.import_errors()
    finally:
        api.close()
