"""Tables of Spark's own catalog, such as a Hive metastore's: found, read and published to by its SQL.

The session comes from `TableAccess`; nothing here imports Spark.
"""
