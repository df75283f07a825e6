"""`python -m airflow_abs.cli.probe HOST:PORT`: whether a Spark Connect server answers; a health check.

The token comes from the environment variable that the server itself reads, never from the command line.
"""

from __future__ import annotations

import os
import sys


def main(address: str) -> int:
    """0 and the server's version on standard output, or 1 and the reason on standard error."""
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint, probe_blocking
    from airflow_abs.spark.errors import SparkOperationError

    host, _, port = address.rpartition(":")
    endpoint = ConnectEndpoint(host, int(port), token=os.environ.get("SPARK_CONNECT_AUTHENTICATE_TOKEN") or None)
    try:
        print(f"Spark {probe_blocking(endpoint, timeout=10.0)}")
    except SparkOperationError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
