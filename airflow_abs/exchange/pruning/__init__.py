"""Splits of a source are left out by what another vertex wrote on the day, if no row of theirs can match."""
