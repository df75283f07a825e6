"""What Spark wrote of a result: bytes by subpartition from footers, and which files are lost. Writes no data."""
