"""What is kept of a stream beside Spark's checkpoint: who supervises it, what it runs.

The checkpoint is Spark's alone.
"""
