"""The corpus: transforms of every family of the API, and what runs them on a server against plain Spark."""
