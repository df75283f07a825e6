"""Places where the package runs for real, started on this host from packages: a Kafka broker, a store like S3, YARN.

    python -m testbed.places kafka|s3|yarn     fetches what a place needs, into `build/places`, where it stays

`make test-kafka`, `make test-s3` and `make test-yarn` do that, and then run the scenes in `tests/places`.
"""
