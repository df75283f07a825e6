"""`plan` makes plan templates of transforms: columns, keys, sources and sinks are checked and bound by Spark's types.

Nothing is run on data here; that a template may run in parts is proved in `proof/`.
"""
