"""Measurements, not tests: what things cost on this machine."""

POOL = "spark"
"""The Airflow pool of the peer `pooled`."""
