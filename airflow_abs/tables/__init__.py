"""Tables as sources: metadata through the formats' own Python libraries, rows through Spark."""
