"""The cluster as data: its services, how each is started, where it listens, when it is healthy."""
