"""What authors declare of streams, and the task that it is."""
