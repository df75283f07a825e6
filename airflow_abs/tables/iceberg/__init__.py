"""Apache Iceberg through pyiceberg: what a snapshot holds, and how Spark reads it without a jar."""
