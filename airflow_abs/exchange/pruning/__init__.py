"""Splits of a source are left out by what another vertex wrote on the day."""
