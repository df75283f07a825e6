"""The arguments of `explain`, `replay`, `simulate` and `runs`: the commands that read an exchange."""

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
_SIMULATE_EXAMPLES = """examples:
  airflow-abs simulate daily_revenue --factor 100 --slots 64
  airflow-abs simulate daily_revenue/big_day daily_revenue/small_day --bytes-per-day 10TB --runs-per-day 24 \\
      --slots 1000 --max-parallelism 1024 --fixed customers
"""


def add_run_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `explain`, `replay`, `simulate` and `runs`."""
    _add_explain(commands)
    _add_replay(commands)
    _add_simulate(commands)
    _add_runs(commands)


def _add_explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    explain = commands.add_parser(
        "explain",
        help="what a run decided and why; or the graph of a DAG file",
        description="Reads plan, decisions and manifests; needs neither Airflow nor Spark. For a DAG file it imports "
        "the file and draws the declared graph.",
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
        help="decide a finished run again, offline, with the same or other options",
        description="Decides every vertex again from the recorded bytes, and shows both decisions side by "
        "side. Nothing is run or written.",
        epilog=_REPLAY_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    replay.add_argument("name", metavar="RUN", help=_RUN_HELP)
    _add_decision_options(replay)
    replay.add_argument("--json", action="store_true", help="print both decisions as JSON")
    replay.set_defaults(run=_replay)


def _add_decision_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--exchange", metavar="URI", help=_EXCHANGE_HELP)
    command.add_argument("--target-bytes", type=_size, metavar="SIZE", help="bytes per subtask, such as 256MB")
    command.add_argument("--min-parallelism", type=_count, metavar="N", help="minimum number of subtasks of a vertex")
    command.add_argument("--max-parallelism", type=_count, metavar="N", help="maximum number of subtasks of a vertex")
    command.add_argument("--strategy", choices=["balanced", "power_of_two"], help="rule that decides")


def _add_simulate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    simulate = commands.add_parser(
        "simulate",
        help="predict a finished run with more bytes, other slots or other settings",
        description="Decides every vertex of the first run from its bytes times a factor, and prints fan-out, waves, "
        "seconds, Airflow's share and exchange bytes, with the assumptions behind them. Seconds come from a model "
        "fitted to all named runs; two runs of very different size fit it best. Nothing is run or written.",
        epilog=_SIMULATE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    simulate.add_argument("names", metavar="RUN", nargs="+", help=f"{_RUN_HELP}; the first is scaled")
    size = simulate.add_mutually_exclusive_group()
    size.add_argument(
        "--factor", type=_factor, default=1.0, metavar="X", help="multiply the bytes of all files (default: 1)"
    )
    size.add_argument(
        "--bytes-per-day", type=_size, metavar="SIZE", help="bytes of all files in all runs of a day, such as 10TB"
    )
    simulate.add_argument(
        "--runs-per-day", type=_count, default=1, metavar="N", help="runs in a day (default: %(default)s)"
    )
    simulate.add_argument(
        "--slots", type=_count, metavar="N", help="Spark tasks that run at once (default: as recorded)"
    )
    _add_decision_options(simulate)
    simulate.add_argument(
        "--fixed",
        action="append",
        default=[],
        metavar="VERTEX",
        help="vertex whose files do not grow (may be repeated)",
    )
    simulate.add_argument("--file-bytes", type=_size, metavar="SIZE", help="size of a file (default: as recorded)")
    simulate.add_argument("--from-trigger", action="store_true", help="assume start_from_trigger=True: no workers")
    simulate.add_argument("--json", action="store_true", help="print JSON")
    simulate.set_defaults(run=_simulate)


def _add_runs(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    runs = commands.add_parser(
        "runs",
        help="list the runs in an exchange",
        description="Lists every planned job of every run in the exchange, newest first.",
    )
    runs.add_argument("--exchange", metavar="URI", help=_EXCHANGE_HELP)
    runs.add_argument("--json", action="store_true", help="print JSON")
    runs.set_defaults(run=_runs)


def _explain(options: argparse.Namespace) -> int:
    if options.name.endswith(".py"):
        from airflow_abs.cli.commands.explain_file import explain_file

        return explain_file(Path(options.name), options.form)
    from airflow_abs.cli.commands.explain import explain_run

    return explain_run(options.name, options.exchange, options.form, every_subtask=options.all)


def _replay(options: argparse.Namespace) -> int:
    from airflow_abs.cli.commands.replay import show_replay
    from airflow_abs.core.simulate.replay_options import ReplayOptions

    chosen = ReplayOptions(options.target_bytes, options.min_parallelism, options.max_parallelism, options.strategy)
    return show_replay(options.name, options.exchange, chosen, as_json=options.json)


def _simulate(options: argparse.Namespace) -> int:
    from airflow_abs.cli.commands.simulate import SimulateOptions, show_simulation
    from airflow_abs.core.simulate.growth import Scenario
    from airflow_abs.core.simulate.replay_options import ReplayOptions

    scenario = Scenario(
        factor=options.factor,
        options=ReplayOptions(
            options.target_bytes, options.min_parallelism, options.max_parallelism, options.strategy, options.slots
        ),
        fixed=frozenset(options.fixed),
        file_bytes=options.file_bytes,
        from_trigger=options.from_trigger,
    )
    chosen = SimulateOptions(scenario, options.bytes_per_day, options.runs_per_day)
    return show_simulation(options.names, options.exchange, chosen, as_json=options.json)


def _runs(options: argparse.Namespace) -> int:
    from airflow_abs.cli.commands.runs import show_runs

    return show_runs(options.exchange, as_json=options.json)


def _size(text: str) -> int:
    from airflow_abs.core.settings import parse_bytes

    try:
        return parse_bytes("size", text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected an integer of at least 1")
    return int(text)


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above 0")
    return factor
