"""The files that a source has on the day, listed as Spark lists them. Rows are never read here."""
