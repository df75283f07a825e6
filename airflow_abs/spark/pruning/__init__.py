"""In `plan`: partitions of sources that no row is read from, and joins where `prune=` would read fewer files.

When in doubt a partition stays: the transform's own filter does the rest.
"""
