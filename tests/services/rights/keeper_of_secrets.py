"""An auth manager for the tests: everybody may do everything, except anything with the DAG `secret`, and clear nothing
of the DAG `refusing_late`."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class KeeperOfSecrets(SimpleAuthManager):
    def is_authorized_dag(self, *, details: Any = None, **rest: Any) -> bool:
        dag_id = details.id if details is not None else None
        if dag_id == "secret" or (dag_id == "refusing_late" and self._clears(**rest)):
            return False
        return bool(super().is_authorized_dag(details=details, **rest))

    @staticmethod
    def _clears(*, method: str, access_entity: Any = None, **_: Any) -> bool:
        return method == "PUT" and access_entity is DagAccessEntity.TASK_INSTANCE
