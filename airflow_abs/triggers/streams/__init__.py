"""A stream for its whole life in the triggerer."""
