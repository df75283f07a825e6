"""Which files of an incremental source belong to which run, and which sinks may receive them.

The position is a value here; `exchange/incremental/` stores it.
"""
