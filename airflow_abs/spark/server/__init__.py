"""Spark servers that this package starts: the embedded one, which the runs of a host share, and one for a single run.

Everything else is given an endpoint and does not ask who started it.
"""
