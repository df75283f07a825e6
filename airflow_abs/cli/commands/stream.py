"""`airflow-abs stream`: what a stream does and did, by what stands beside its checkpoint; how it is ended there; and
whether another version of it could resume from it."""

from __future__ import annotations

import getpass
import json
import socket
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from airflow_abs.cli.commands.exchange_root import open_uri
from airflow_abs.cli.output.tables import Block, Column, Table, show
from airflow_abs.core.stream_life.life import KEPT_BATCHES, Batch, StateChange, StreamLife
from airflow_abs.core.wording import format_bytes, format_count, format_duration
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.exchange.streaming.lease import Holder, read_holder
from airflow_abs.exchange.streaming.life_record import read_life
from airflow_abs.exchange.streaming.request import StreamRequest, ask_stream

NOT_RUNNING = NOT_ENDED = 1
_SHOWN = 10
_POLL_SECONDS = 1.0


def show_stream(checkpoint: str, *, as_json: bool, everything: bool) -> int:
    """Print the status of the stream with that checkpoint; 0 if it has a supervisor, else 1.

    Raises:
        ValueError: no stream ever ran on it.
        ExchangeError: what stands there cannot be read.
    """
    path = open_uri(checkpoint, "checkpoint")
    holder, life = _holder(path, checkpoint), read_life(path) or StreamLife()
    now = time.time()
    is_held = holder.until >= now
    if as_json:
        told = {"supervised": is_held, "until": holder.until, "server": holder.server, "state": life.state}
        print(json.dumps({**told, **asdict(life)}, indent=2))
    else:
        show([*_head(holder, life, now), *_tables(life, KEPT_BATCHES if everything else _SHOWN)])
    return 0 if is_held else NOT_RUNNING


def end_stream(checkpoint: str, action: Literal["drain", "stop"], wait: float) -> int:
    """Ask the stream with that checkpoint to end, and wait for it; 0 once it has, else 1.

    Raises:
        ValueError: no stream runs on it.
        ExchangeError: its folder cannot be read or written.
    """
    path = open_uri(checkpoint, "checkpoint")
    holder = _holder(path, checkpoint)
    if holder.until == 0:
        raise ValueError(f"checkpoint {checkpoint}: {holder.owner} has ended, and no stream runs on it now")
    known = _changes(path)
    now = time.time()
    ask_stream(path, StreamRequest(action, holder.query, f"{getpass.getuser()}@{socket.gethostname()}", now))
    print(f"asked {holder.owner} to {action}")
    if holder.until < now:
        print(f"it has had no supervisor since {_clock(holder.until)} UTC, and ends when a triggerer takes it over")
    return _await_end(path, holder, known[-1].at if known else 0.0, now + wait)


def check_stream(checkpoint: str, dag_file: Path) -> int:
    """Compile the stream of a DAG file that has that checkpoint, and compare it with what stands there; what runs is
    left alone. 0 if it can resume.

    Raises:
        ValueError: no stream of the file has it, Airflow would have to render one, or it does not compile.
        ExchangeError: it cannot resume from there, or its folder cannot be read.
    """
    from airflow_abs.operators.streams.compilation import compile_declared
    from airflow_abs.spark.stream.compile import errors_of_spark
    from airflow_abs.task_groups.dag_file import read_streams

    if not dag_file.is_file():
        raise ValueError(f"{dag_file}: no such file; expected a DAG file")
    declared = read_streams(dag_file)
    found = [stream for stream in declared if stream.checkpoint == checkpoint]
    if len(found) != 1:
        theirs = ", ".join(f"{stream.task_id} ({stream.checkpoint})" for stream in declared) or "none"
        raise ValueError(
            f"{dag_file}: {format_count(len(found), 'stream')} with the checkpoint {checkpoint}, expected one; found "
            f"there: {theirs}"
        )
    (stream,) = found
    fields = json.dumps([getattr(stream, name) for name in stream.template_fields], default=str)
    if "{{" in fields or "{%" in fields:
        raise ValueError(
            f"stream {stream.task_id!r}: has templates, which only a run renders; its task checks the stream before "
            "it starts"
        )
    try:
        compile_declared(stream.declared(f"{stream.task_id} check"))
    except errors_of_spark() as error:
        raise ValueError(f"stream {stream.task_id!r}: {error}") from error
    print(f"stream {stream.task_id!r} can resume from {checkpoint}")
    return 0


def _await_end(path: ExchangePath, asked: Holder, told: float, until: float) -> int:
    """Print its changes after the one that is told, until it has ended or the time is up."""
    while True:
        holder = read_holder(path)
        has_ended = holder is None or holder.until == 0 or holder.query != asked.query
        for change in _changes(path):
            if change.at > told:
                print(f"{_clock(change.at)} UTC  {change.left} -> {change.entered}: {change.reason}")
                told = change.at
        if has_ended:
            return 0
        if time.time() >= until:
            print("it has not ended yet; the request remains in place")
            return NOT_ENDED
        time.sleep(_POLL_SECONDS)


def _changes(path: ExchangePath) -> tuple[StateChange, ...]:
    life = read_life(path)
    return () if life is None else life.changes


def _holder(path: ExchangePath, checkpoint: str) -> Holder:
    holder = read_holder(path)
    if holder is None:
        raise ValueError(
            f"checkpoint {checkpoint}: no stream has run on it; expected the `checkpoint=` of an AdaptiveSparkStream, "
            "as it was rendered"
        )
    return holder


def _head(holder: Holder, life: StreamLife, now: float) -> list[Block]:
    since = f" since {_clock(life.changes[-1].at)} UTC" if life.changes else ""
    lines: list[Block] = [f"{holder.owner}: {life.state}{since}"]
    if holder.until >= now:
        started = f", started for {format_count(holder.slots, 'slot')}" if holder.slots else ""
        lines.append(f"  supervised, on the Spark server {holder.server or 'that it waits for'}{started}")
    elif holder.until:
        lines.append(f"  without a supervisor since {_clock(holder.until)} UTC; its query may still be running")
    lines.append(f"  {format_count(life.restarts, 'restart')}, {format_count(life.rescales, 'rescale')}")
    if life.bound:
        lines.append(f"  runs as a batch, which ends: its source is bounded ({life.bound})")
    if life.alarm:
        lines.append(f"  ALARM: {life.alarm}")
    return lines


def _tables(life: StreamLife, most: int) -> list[Block]:
    blocks: list[Block] = []
    told = sorted(
        [(each.at, each.entered, each.reason) for each in life.changes]
        + [(note.at, "", note.text) for note in life.notes]
    )
    if told:
        columns = (Column("when (UTC)"), Column("state"), Column("why"))
        rows = [[_clock(at), state, why.partition("\n")[0]] for at, state, why in told[-most:]]
        blocks += ["", Table(columns, rows)]
    if life.batches:
        blocks += ["", Table(_BATCH, [_batch_row(batch) for batch in life.batches[-most:]])]
    return blocks


_BATCH = (
    Column("batch", is_number=True),
    Column("ended (UTC)"),
    Column("took", is_number=True),
    Column("rows in", is_number=True),
    Column("rows out", is_number=True),
    Column("rows in/s", is_number=True),
    Column("lag", is_number=True),
    Column("behind", is_number=True),
    Column("state rows", is_number=True),
    Column("state", is_number=True),
)


def _batch_row(batch: Batch) -> list[str]:
    return [
        str(batch.number),
        _clock(batch.ended),
        format_duration(batch.seconds),
        f"{batch.rows_in:,}",
        "?" if batch.rows_out is None else f"{batch.rows_out:,}",
        f"{batch.rows_in_per_second:,.0f}",
        "?" if batch.lag is None else format_duration(batch.lag),
        "?" if batch.rows_behind is None else f"{batch.rows_behind:,}",
        f"{batch.state_rows:,}",
        format_bytes(batch.state_bytes),
    ]


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
