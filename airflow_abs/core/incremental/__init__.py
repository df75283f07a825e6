"""Which files of a source the runs of a job have read."""
