"""Measurements, not tests: what things cost on this machine."""
