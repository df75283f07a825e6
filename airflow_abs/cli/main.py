"""The console script `airflow-abs`. Each command's imports are in its function, so that `--help` is instant."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from airflow_abs.cli.commands.arguments import add_run_commands
from airflow_abs.cli.commands.demo import DEFAULT_SCALE, add_demo, parse_dates
from airflow_abs.cli.commands.manifests import add_manifests
from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.spark.errors import SparkOperationError

_EXAMPLES = """examples:
  airflow-abs demo                                   three days through a real Airflow and a real Spark
  airflow-abs demo --keep                            the same, and leave the Airflow UI up
  airflow-abs demo --dag diamond --json demo.json    another example DAG; the numbers as data
  airflow-abs generate --out /data/lake --dates 2026-01-01,2026-01-02,2026-01-03 --scale 1
  airflow-abs server status                          the Spark server that this host's tasks share
  airflow-abs manifests kubernetes --image spark:4.2.0      a Spark server on Kubernetes that all runs share
  airflow-abs runs --exchange /data/exchange         list the runs in an exchange
  airflow-abs explain daily_revenue --exchange ...   the newest run: bytes, rules, ranges, attempts
  airflow-abs explain dags/daily_revenue.py          its graph, before anything ran
  airflow-abs replay daily_revenue --exchange ... --target-bytes 256MB     decide it again, offline
  airflow-abs simulate daily_revenue --exchange ... --factor 100          predict a larger day
  airflow-abs stream status s3://mart/checkpoints/clicks                  what a stream is doing and has done
  airflow-abs gc --older-than 7d --dry-run           what old runs have left in the exchange
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status: 0 all right, 1 it went wrong, 2 wrong arguments, 130 Ctrl-C."""
    return run_command(_parser(), arguments)


def run_command(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Run what the parsed command set as `run`; errors are told in one line, after the parser's name."""
    try:
        options = parser.parse_args(arguments)
        if not hasattr(options, "run"):
            parser.print_help()
            return 2
        return _run(options)
    except BrokenPipeError:  # the reader of `airflow-abs explain ... | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed as the process ends
        return 0
    except KeyboardInterrupt:
        print("interrupted; stopped everything that it started", file=sys.stderr)
        return 130
    except (ValueError, OSError, RuntimeError, ExchangeError, SparkOperationError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    status = int(options.run(options))
    sys.stdout.flush()
    return status


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="airflow-abs",
        description="Adaptive batch scheduling for Airflow and Spark: try it, inspect runs, operate it.",
        epilog=_EXAMPLES,
        formatter_class=formatter,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    add_demo(commands)
    _add_generate(commands)
    _add_server(commands)
    add_manifests(commands)
    _add_gc(commands)
    _add_stream(commands)
    add_run_commands(commands)
    return parser


def _add_generate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    generate = commands.add_parser(
        "generate",
        help="generate daily order files: TPC-H rows, days that differ 20-fold and more, one with a hot key",
        description="Writes customers/ and orders/ds=<date>/ as Parquet. Any three consecutive days differ at least "
        "20-fold. The same parameters always give the same day; days that already exist with the same parameters are "
        "kept.",
    )
    generate.add_argument("--out", type=Path, required=True, help="folder to write to")
    generate.add_argument(
        "--dates", type=parse_dates, required=True, help="comma-separated days: 2026-01-01,2026-01-02"
    )
    generate.add_argument(
        "--scale", type=float, default=DEFAULT_SCALE, help="TPC-H scale factor (default: %(default)s)"
    )
    generate.add_argument(
        "--hot-day",
        default="last",
        metavar="DATE",
        help="day on which one customer has 40 %% of the orders; `last` (default) or `none`",
    )
    generate.set_defaults(run=_generate)


def _add_server(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    server = commands.add_parser(
        "server",
        help="install, show, stop or prepare this host's embedded Spark server, or check any server",
        description="The embedded Spark Connect server is started by the first task that needs it, and all tasks "
        "share it. `install` installs Spark for an Airflow that has only its client: pip fetches some 400 MB into "
        "this user's cache, and Airflow's environment does not change. `prepare` stores Spark's classes, so that "
        "every start costs half the CPU: for an image, or after an upgrade of Spark or Java. `check` runs steps and "
        "jobs on the server of a connection, and compares their rows with plain Spark's and DuckDB's. `jars s3` and "
        "`jars kafka` fetch the jars that Spark lacks, with Maven, and print the server's settings.",
    )
    server.add_argument("action", choices=["install", "status", "stop", "prepare", "check", "jars"])
    server.add_argument("connector", nargs="?", choices=["s3", "kafka"], help="for `jars`")
    server.add_argument(
        "--spark",
        metavar="RELEASE",
        help="for `install` and `jars`, such as 4.1.4 (default: the client's, and for `jars` 4.2.0)",
    )
    server.add_argument(
        "--conn-id", default="spark_connect_default", metavar="NAME", help="for `check` (default: %(default)s)"
    )
    server.add_argument(
        "--folder",
        type=Path,
        help="the state folder (default: this host's Airflow's); for `check` a folder that the server sees, too; for "
        "`jars` where to put them",
    )
    server.set_defaults(run=_server)


def _add_gc(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    gc = commands.add_parser(
        "gc",
        help="delete what finished runs have left in the exchange",
        description="Deletes the folders of jobs in which no file has changed for a while and whose run is neither "
        "queued nor running. Run it on an Airflow host: it reads Airflow's database.",
    )
    gc.add_argument("--older-than", default="7d", metavar="AGE", help="90s, 30m, 12h, 7d (default: %(default)s)")
    gc.add_argument("--exchange", metavar="URI", help="default: the one that Airflow is configured with")
    gc.add_argument("--dry-run", action="store_true", help="only list what would be deleted")
    gc.set_defaults(run=_gc)


def _add_stream(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    stream = commands.add_parser(
        "stream",
        help="show a stream, end it, or check a new version of it",
        description="`status` shows what a stream is doing and has done, from the record next to its checkpoint. "
        "`drain` ends it after the current batch, and its task succeeds; `stop` ends it immediately, and its task "
        "fails without a retry. Either way it can resume from the checkpoint later. Both need write access to the "
        "checkpoint's folder. `check` tells whether the stream, as a DAG file declares it now, could resume; a running "
        "query is not touched.",
    )
    stream.add_argument("action", choices=["status", "drain", "stop", "check"])
    stream.add_argument("checkpoint", metavar="CHECKPOINT", help="folder or URI: `checkpoint=` of the stream")
    stream.add_argument("--json", action="store_true", help="print the status as JSON")
    stream.add_argument("--all", action="store_true", help="show the full record, not only the last ten of each")
    stream.add_argument(
        "--wait",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="how long `drain` and `stop` wait for the end; 0: they do not wait (default: %(default)s)",
    )
    stream.add_argument("--dag-file", type=Path, metavar="FILE", help="for `check`: where the stream is declared")
    stream.set_defaults(run=_stream)


def _generate(options: argparse.Namespace) -> int:
    from airflow_abs.cli.output.terminal import Terminal
    from airflow_abs.demo.generate import DataSpec, generate

    match options.hot_day:
        case "last":
            hot_day = options.dates[-1]
        case "none":
            hot_day = None
        case day:
            hot_day = date.fromisoformat(day)
    with Terminal() as terminal:
        made = generate(DataSpec(options.out.absolute(), options.dates, options.scale, hot_day), terminal.step)
        fresh = sum(dataset.fresh for dataset in made)
        terminal.step(f"{fresh} made, {len(made) - fresh} there already, in {options.out}")
    return 0


def _server(options: argparse.Namespace) -> int:
    from airflow_abs.cli.commands.server import bring_jars, install_server, prepare_server, show_status, stop_server
    from airflow_abs.cli.commands.server_check import check_server
    from airflow_abs.hooks.adaptive_spark import embedded_folder

    if options.action == "install":
        return install_server(options.spark)
    if options.action == "prepare":
        return prepare_server()
    if options.action == "check":
        return check_server(options.conn_id, options.folder)
    if options.action == "jars":
        return bring_jars(options.connector, options.folder, options.spark)
    folder = options.folder or embedded_folder()
    return show_status(folder) if options.action == "status" else stop_server(folder)


def _gc(options: argparse.Namespace) -> int:
    from airflow_abs.cli.commands.gc import collect_garbage, parse_duration

    return collect_garbage(options.exchange, parse_duration(options.older_than), dry_run=options.dry_run)


def _stream(options: argparse.Namespace) -> int:
    from airflow_abs.cli.commands.stream import check_stream, end_stream, show_stream

    if options.action == "check":
        if options.dag_file is None:
            raise ValueError("stream check: expected --dag-file, the file that declares the stream")
        return check_stream(options.checkpoint, options.dag_file)
    if options.action == "status":
        return show_stream(options.checkpoint, as_json=options.json, everything=options.all)
    return end_stream(options.checkpoint, options.action, options.wait)


if __name__ == "__main__":
    sys.exit(main())
