"""What is remembered of a stream, and when its lag is alarming."""
