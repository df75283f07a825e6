"""Which edges are written on the day, and which stay inside Spark: what is predicted, what fails, what is lost then."""
