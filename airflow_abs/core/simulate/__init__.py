"""A recorded run with more bytes, other slots or other settings: fan-out, seconds, bytes that are kept.

Numbers and ranges come from `decide_region`, as in a run. Only the clock and the costs are a model.
"""
