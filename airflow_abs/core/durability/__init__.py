"""Which edges are written on the day, and which stay inside Spark: predicted cost, failures, and what they would lose.

Everything is estimated from sizes and earlier runs. Nothing here may change the rows of a result, only where they wait.
"""
