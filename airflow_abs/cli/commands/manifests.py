"""`manifests kubernetes`: print what an administrator applies."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_abs.core.errors import InvalidValueError

if TYPE_CHECKING:
    from airflow_abs.cli.output.kubernetes_server import KubernetesServer

_PROPERTY = re.compile(r"([^\s=:]+)(?:\s*[=:]\s*|\s+)(\S.*)")
"""One line as Java reads it, without its escapes."""
_EXAMPLES = """examples:
  airflow-abs manifests kubernetes --image registry.example/spark:4.2.0 | kubectl apply -f -
  airflow-abs manifests kubernetes --image registry.example/spark:4.2.0 --executors 8 \\
      --conf spark.executor.memory=8g --conf spark.executor.cores=4
"""


def add_manifests(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `manifests`."""
    manifests = commands.add_parser(
        "manifests",
        help="print Kubernetes manifests of a Spark server that all runs share",
        description="Prints a Deployment (Spark Connect server, nginx for TLS), Service, account, Role, ConfigMap and "
        "NetworkPolicy. Its first lines name the two secrets to create and the connection of Airflow.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    manifests.add_argument("place", choices=["kubernetes"])
    manifests.add_argument("--image", required=True, help="Spark's image, with the packages that transforms import")
    manifests.add_argument("--namespace", default="spark", help="of the server and executors (default: %(default)s)")
    manifests.add_argument("--name", default="spark-connect", help="of the server's objects (default: %(default)s)")
    manifests.add_argument(
        "--proxy-image", default="nginx:1.28-bookworm", help="nginx 1.25.1 or newer (default: %(default)s)"
    )
    manifests.add_argument(
        "--airflow-namespace", default="airflow", help="whose pods may connect (default: %(default)s)"
    )
    manifests.add_argument("--executors", type=int, default=2, help="number of executors (default: %(default)s)")
    manifests.add_argument("--cpu", default="1", help="request of the driver (default: %(default)s)")
    manifests.add_argument("--memory", default="3Gi", help="request and limit of the driver (default: %(default)s)")
    manifests.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="Spark setting of the server (repeatable)"
    )
    manifests.add_argument(
        "--properties-file", type=Path, metavar="FILE", help="Spark settings of the server, as spark-submit reads them"
    )
    manifests.add_argument(
        "--annotation",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of the account of server and executors, such as a role of IRSA (repeatable)",
    )
    manifests.set_defaults(run=_print_manifests)


def server_of(options: argparse.Namespace) -> KubernetesServer:
    """What the arguments ask for; a setting of `--conf` takes precedence over the file's."""
    from airflow_abs.cli.output.kubernetes_server import KubernetesServer

    conf = _read_properties(options.properties_file) if options.properties_file else {}
    return KubernetesServer(
        options.image,
        options.namespace,
        options.name,
        options.proxy_image,
        options.airflow_namespace,
        options.executors,
        options.cpu,
        options.memory,
        _pairs(options.annotation),
        conf | _pairs(options.conf),
    )


def _print_manifests(options: argparse.Namespace) -> int:
    print(server_of(options).manifests(), end="")
    return 0


def _read_properties(file: Path) -> dict[str, str]:
    """Raises:
    InvalidValueError: a line is no setting, or has a backslash.
    """
    found = {}
    for number, line in enumerate(map(str.strip, file.read_text().splitlines()), 1):
        if line and line[0] not in "#!":
            setting = _PROPERTY.fullmatch(line)
            if setting is None or "\\" in line:
                raise InvalidValueError(
                    f"manifests: {file}, line {number}: found {line!r}; expected a setting and its value, without "
                    "escapes or continued lines, such as spark.driver.memory 4g"
                )
            found[setting[1]] = setting[2]
    return found


def _pairs(texts: Iterable[str]) -> dict[str, str]:
    return {key: value for key, _, value in (each.partition("=") for each in texts)}
