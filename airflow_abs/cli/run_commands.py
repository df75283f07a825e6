"""The arguments of `explain`, `replay` and `runs`: the commands that read an exchange."""

from __future__ import annotations

import argparse
from pathlib import Path

_RUN_HELP = (
    "folder (or URI) of a run or of one job in it; or dag_id/run_id, dag_id/run_id/job, or a dag_id for its newest run"
)
_EXCHANGE_HELP = "root of the exchange (default: the one that this host's Airflow is configured with)"

_EXPLAIN_EXAMPLES = """examples:
  airflow-abs explain daily_revenue --exchange s3://scratch/exchange        the newest run of a DAG
  airflow-abs explain daily_revenue/scheduled__2026-01-03T00:00:00+00:00 --all
  airflow-abs explain /data/exchange/daily_revenue/demo__2026-01-03 --json
  airflow-abs explain dags/daily_revenue.py                                 the graph, before anything ran
  airflow-abs explain dags/daily_revenue.py --dot | dot -Tsvg > graph.svg
"""
_REPLAY_EXAMPLES = """examples:
  airflow-abs replay daily_revenue/demo__2026-01-03                 as recorded; exit status 1 if anything differs
  airflow-abs replay daily_revenue --target-bytes 256MB --max-parallelism 64
  airflow-abs replay daily_revenue --strategy power_of_two --json
"""


def add_run_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `explain`, `replay` and `runs`."""
    _add_explain(commands)
    _add_replay(commands)
    _add_runs(commands)


def _add_explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    explain = commands.add_parser(
        "explain",
        help="what a run decided and why, from its exchange alone; or the graph of a DAG file",
        description="Reads plan, decisions and manifests; needs neither Airflow nor Spark, and works after a release. "
        "For a DAG file it imports the file and draws what it declares.",
        epilog=_EXPLAIN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    explain.add_argument("name", metavar="RUN", help=f"{_RUN_HELP}; or a DAG file")
    explain.add_argument("--exchange", metavar="URI", help=_EXCHANGE_HELP)
    form = explain.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", default="text", help="print JSON")
    form.add_argument("--dot", dest="form", action="store_const", const="dot", help="print a Graphviz graph")
    explain.add_argument("--all", action="store_true", help="show every subtask, not only the first of each vertex")
    explain.set_defaults(run=_explain)


def _add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    replay = commands.add_parser(
        "replay",
        help="decide a finished run again, offline, with the same options or others",
        description="Decides every vertex again from the bytes that were recorded, and shows both decisions side by "
        "side. Nothing is run or written.",
        epilog=_REPLAY_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    replay.add_argument("name", metavar="RUN", help=_RUN_HELP)
    replay.add_argument("--exchange", metavar="URI", help=_EXCHANGE_HELP)
    replay.add_argument("--target-bytes", type=_size, metavar="SIZE", help="bytes per subtask, such as 256MB")
    replay.add_argument("--min-parallelism", type=_count, metavar="N", help="fewest subtasks of a vertex")
    replay.add_argument("--max-parallelism", type=_count, metavar="N", help="most subtasks of a vertex")
    replay.add_argument("--strategy", choices=["balanced", "power_of_two"], help="how to decide")
    replay.add_argument("--json", action="store_true", help="print both decisions as JSON")
    replay.set_defaults(run=_replay)


def _add_runs(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    runs = commands.add_parser(
        "runs",
        help="what an exchange holds",
        description="Lists every planned job of every run in the exchange, newest first.",
    )
    runs.add_argument("--exchange", metavar="URI", help=_EXCHANGE_HELP)
    runs.add_argument("--json", action="store_true", help="print JSON")
    runs.set_defaults(run=_runs)


def _explain(options: argparse.Namespace) -> int:
    if options.name.endswith(".py"):
        from airflow_abs.cli.explain_file import explain_file

        return explain_file(Path(options.name), options.form)
    from airflow_abs.cli.explain import explain_run

    return explain_run(options.name, options.exchange, options.form, every_subtask=options.all)


def _replay(options: argparse.Namespace) -> int:
    from airflow_abs.cli.replay import show_replay
    from airflow_abs.exchange.replay import ReplayOptions

    chosen = ReplayOptions(options.target_bytes, options.min_parallelism, options.max_parallelism, options.strategy)
    return show_replay(options.name, options.exchange, chosen, as_json=options.json)


def _runs(options: argparse.Namespace) -> int:
    from airflow_abs.cli.runs import show_runs

    return show_runs(options.exchange, as_json=options.json)


def _size(text: str) -> int:
    from airflow_abs.settings import parse_bytes

    try:
        return parse_bytes("size", text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected an integer of at least 1")
    return int(text)
