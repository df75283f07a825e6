"""What the tasks of a run leave for each other, as checked JSON. Records are read and written, nothing is decided."""
