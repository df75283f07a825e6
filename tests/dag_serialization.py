"""Airflow's serialisation of DAGs, under the name that it has had since 3.2."""

from __future__ import annotations

from airflow.serialization import serialized_objects

DagSerialization = getattr(serialized_objects, "DagSerialization", None) or serialized_objects.SerializedDAG

__all__ = ["DagSerialization"]
