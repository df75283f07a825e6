"""What the task of a stream does while it runs, and what it tells.

Which state follows which is decided in `core/streaming`, what happens on Spark is in `spark/stream`.
"""
