"""The page of the streams of a DAG run."""
