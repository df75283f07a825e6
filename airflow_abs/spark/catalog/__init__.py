"""Tables of Spark's own catalog: what it says of them, and whether their files are what `plan` listed."""
