"""Places where the package runs for real, started on this host from packages: a Kafka broker, a store like S3.

    python -m testbed.places kafka|s3     fetches what a place needs, into `build/places`, where it stays

`make test-kafka` and `make test-s3` do that, and then run the scenes in `tests/places`.
"""
