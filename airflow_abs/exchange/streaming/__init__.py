"""What is kept of a stream beside Spark's checkpoint: who supervises it, and what it runs."""
