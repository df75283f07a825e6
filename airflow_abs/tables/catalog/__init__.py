"""Tables of Spark's own catalog, be it a Hive metastore or another: found, read and published to by its SQL."""
