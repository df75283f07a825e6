"""Places where the package runs for real, on this host, made from packages: a Kafka broker, a store like S3, clusters.

    python -m testbed.places kafka|s3|yarn|kubernetes|compose

fetches what a place needs into `build/places`, where it stays. `make test-kafka` and its like do that, and then run
the scenes in `tests/places`.
"""
