"""The arguments of `demo`, and what they choose."""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_abs.demo.example_dags import example_dags_folder

if TYPE_CHECKING:
    from airflow_abs.demo.run import DemoOptions

DEFAULT_DATES = "2026-01-01,2026-01-02,2026-01-03"
DEFAULT_SCALE = 0.1


def add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    demo = commands.add_parser(
        "demo",
        help="a small day, a big day with a hot key and a killed worker, and a mistake: on a real Airflow and Spark",
        description="Starts Airflow (SQLite, LocalExecutor) and an embedded Spark in a temporary folder and runs an "
        "example DAG: on a small day, on a big one with a hot key and a killed worker, and with a mistake "
        "in it. With --dates or --dag it runs the example DAGs for each date instead, with every edge written, and "
        "shows what was decided and why. Output is compared with DuckDB's. Stops everything that it started, even "
        "after Ctrl-C. Exit status 0 only if all results are right.",
    )
    add_demo_arguments(demo)
    demo.set_defaults(run=_demo)


def add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    """Dates, scale, DAGs, and what to do at the end."""
    parser.add_argument(
        "--dates",
        type=parse_dates,
        metavar="DATES",
        help=f"comma-separated days; with --dag {DEFAULT_DATES} by default",
    )
    parser.add_argument("--scale", type=float, default=DEFAULT_SCALE, help="TPC-H scale factor (default: %(default)s)")
    parser.add_argument(
        "--dag",
        action="append",
        metavar="DAG_ID",
        help="example DAG (default: daily_revenue); may be repeated; or `all`",
    )
    parser.add_argument(
        "--hot-day", type=date.fromisoformat, metavar="DATE", help="day on which one customer has 40 %% of the orders"
    )
    parser.add_argument(
        "--dags-folder",
        type=Path,
        default=example_dags_folder(),
        help="where the example DAGs are (default: %(default)s)",
    )
    parser.add_argument("--keep", action="store_true", help="leave the UI up, print its address and wait for Ctrl-C")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to this file as well")


def demo_options(options: argparse.Namespace) -> DemoOptions:
    """Raises:
    ValueError: a DAG or the folder of the DAGs is not there.
    """
    from airflow_abs.demo.oracle import QUERIES
    from airflow_abs.demo.run import DemoOptions

    dag_ids = tuple(dict.fromkeys(options.dag or ["daily_revenue"]))
    return DemoOptions(
        dates=options.dates or parse_dates(DEFAULT_DATES),
        scale=options.scale,
        dag_ids=tuple(QUERIES) if "all" in dag_ids else dag_ids,
        dags_folder=options.dags_folder.absolute(),
        hot_day=options.hot_day,
        keep=options.keep,
        json_file=options.json,
    )


def parse_dates(text: str) -> tuple[date, ...]:
    """Days with commas between them."""
    try:
        return tuple(date.fromisoformat(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{error}; expected days with commas, for example 2026-01-01,2026-01-02"
        ) from error


def _demo(options: argparse.Namespace) -> int:
    from airflow_abs.cli.output.terminal import Terminal
    from airflow_abs.demo.run import run_demo
    from airflow_abs.demo.story import StoryOptions, tell_story

    chosen = demo_options(options)
    with Terminal() as terminal:
        if options.dates or options.dag or options.hot_day:
            return 0 if run_demo(chosen, terminal) else 1
        story = StoryOptions(chosen.scale, chosen.dags_folder, chosen.keep, chosen.json_file)
        return 0 if tell_story(story, terminal) else 1
