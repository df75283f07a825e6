"""Tokens of managed servers: where they come from, when they are renewed, how they go with a call.

A token appears in no log, message or repr.
"""
