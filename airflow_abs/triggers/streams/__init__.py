"""The trigger that has a stream for its whole life. What it does meanwhile is in `execution/streams`."""
