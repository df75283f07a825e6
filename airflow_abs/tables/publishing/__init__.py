"""Publishing to tables: what is the same for every kind."""
