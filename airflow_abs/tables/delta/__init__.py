"""Delta Lake through deltalake: what a version holds, how Spark reads it without a jar, and a new one.

Rows are read and written by Spark alone.
"""
