"""`python -m testbed`: the cluster of docker-compose.yaml as processes of this host, and the demo on it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from airflow_abs.cli.main import run_command
from testbed.cluster import add_cluster
from testbed.demo import add_demo

PROGRAM = "python -m testbed"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status is as of `airflow-abs`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="The whole cluster of docker-compose.yaml as processes of this host."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    add_cluster(commands)
    add_demo(commands)
    return run_command(parser, arguments)


if __name__ == "__main__":
    sys.exit(main())
