"""An auth manager for the tests: everybody may do everything, except anything with the DAG `secret`."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class KeeperOfSecrets(SimpleAuthManager):
    def is_authorized_dag(self, *, details: Any = None, **rest: Any) -> bool:
        if details is not None and details.id == "secret":
            return False
        return bool(super().is_authorized_dag(details=details, **rest))
