"""One streaming query on a Connect server: compiled, started once, watched, stopped."""
