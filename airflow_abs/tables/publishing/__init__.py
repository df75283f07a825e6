"""Publishing: every sink by its kind, and what is the same for tables of every kind.

No format's library is imported.
"""
