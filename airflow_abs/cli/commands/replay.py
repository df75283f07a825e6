"""`airflow-abs replay`: decide a run again, offline, and show both decisions side by side."""

from __future__ import annotations

import json
from typing import Any

from airflow_abs.cli.commands.runs import find_folders
from airflow_abs.cli.output.tables import Block, Column, Table, show
from airflow_abs.core.simulate.replay_options import ReplayOptions
from airflow_abs.core.wording import format_bytes, format_count
from airflow_abs.exchange.runs.replayed import Replayed, replay_run
from airflow_abs.exchange.runs.run_reading import read_decisions
from airflow_abs.exchange.runs.run_view import RunView

_COLUMNS = (
    Column("vertex"),
    Column("then", is_number=True),
    Column("now", is_number=True),
    Column("largest then", is_number=True),
    Column("largest now", is_number=True),
    Column("max/mean then", is_number=True),
    Column("max/mean now", is_number=True),
    Column("why now"),
)


def show_replay(name: str, exchange: str | None, options: ReplayOptions, *, as_json: bool = False) -> int:
    """Print the replay of every job of the run; the exit status is 1 if recorded options gave another decision."""
    runs = [read_decisions(folder) for folder in find_folders(name, exchange)]
    replays = [replay_run(run, options) for run in runs]
    recorded_options = options == ReplayOptions()
    same = all(each.is_same for replayed in replays for each in replayed)
    if as_json:
        print(json.dumps([_to_json(run, found) for run, found in zip(runs, replays, strict=True)], indent=2))
    else:
        pairs = zip(runs, replays, strict=True)
        show([block for run, found in pairs for block in describe_replay(run, found, options)])
    return 1 if recorded_options and not same else 0


def describe_replay(run: RunView, replayed: list[Replayed], options: ReplayOptions) -> list[Block]:
    """The options, a row per region, and the sum."""
    blocks: list[Block] = [f"{run.folder.dag_id} / {run.folder.run_id} / {run.folder.job}", _asked(options), ""]
    titles = {region.name: region.title for region in run.regions}
    blocks.append(Table(_COLUMNS, [_row(titles[each.region], each) for each in replayed]))
    then = sum(each.recorded.parallelism for each in replayed)
    now = sum(each.again.parallelism for each in replayed)
    blocks.append("")
    if all(each.is_same for each in replayed):
        blocks.append(f"the same decisions, every number and range: {format_count(then, 'subtask')}")
    else:
        different = sum(not each.is_same for each in replayed)
        blocks.append(
            f"{different} of {format_count(len(replayed), 'decision')} different: {then} subtasks then, {now} now"
        )
    if undecided := len(run.regions) - len(replayed):
        blocks.append(f"{format_count(undecided, 'region')} had not been decided")
    return blocks


def _asked(options: ReplayOptions) -> str:
    given = {
        "target": format_bytes(options.target_bytes) if options.target_bytes else None,
        "min_parallelism": options.min_parallelism,
        "max_parallelism": options.max_parallelism,
        "strategy": options.strategy,
    }
    told = ", ".join(f"{name} {value}" for name, value in given.items() if value is not None)
    return f"decided again with {told}; the rest as recorded" if told else "decided again with the recorded options"


def _row(title: str, each: Replayed) -> list[str]:
    then, now = each.recorded, each.again
    return [
        title,
        str(then.parallelism),
        str(now.parallelism),
        format_bytes(then.largest_bytes),
        format_bytes(now.largest_bytes),
        f"{then.max_over_mean:.2f}",
        f"{now.max_over_mean:.2f}",
        "as recorded" if each.is_same else now.reason,
    ]


def _to_json(run: RunView, replayed: list[Replayed]) -> dict[str, Any]:
    return {
        "dag_id": run.folder.dag_id,
        "run_id": run.folder.run_id,
        "job": run.folder.job,
        "same": all(each.is_same for each in replayed),
        "regions": [
            {
                "region": each.region,
                "same": each.is_same,
                "recorded": each.recorded.to_json(),
                "again": each.again.to_json(),
            }
            for each in replayed
        ],
    }
