from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.cpu_time import (
    DRIVER,
    OTHER,
    ProcessTimes,
    difference,
    parse_stat,
    read_processes,
    seconds_by_part,
)

TICKS = os.sysconf("SC_CLK_TCK")
# An orphan: its parent ends at once, it burns CPU time and stays until its standard input closes.
BURN = "import time; e = time.process_time() + 0.5\nwhile time.process_time() < e: pass\n"


def test_a_process_name_may_hold_spaces_and_parentheses() -> None:
    fields = " ".join(["S", "7", *["0"] * 9, "10", "20", "3", "4", *["0"] * 20])
    assert parse_stat(f"42 (a) b (c) {fields}") == ProcessTimes(pid=42, parent=7, own=30, reaped=7)


def test_time_is_told_by_part_and_a_head_may_be_told_from_what_is_below_it() -> None:
    processes = [
        ProcessTimes(1, 0, own=100 * TICKS, reaped=0),  # not ours
        ProcessTimes(10, 1, own=1 * TICKS, reaped=2 * TICKS),  # the root
        ProcessTimes(11, 10, own=4 * TICKS, reaped=8 * TICKS),  # the scheduler
        ProcessTimes(12, 11, own=16 * TICKS, reaped=0),  # a worker
        ProcessTimes(13, 10, own=32 * TICKS, reaped=0),  # the server
        ProcessTimes(14, 13, own=64 * TICKS, reaped=0),  # its child
        ProcessTimes(15, 10, own=128 * TICKS, reaped=0),  # nobody's
    ]
    parts = {"scheduler": 11, "spark": 13}
    assert seconds_by_part(processes, 10, parts, {"scheduler": "workers"}) == {
        DRIVER: 1.0,
        OTHER: 2.0 + 128.0,
        "scheduler": 4.0,
        "workers": 8.0 + 16.0,
        "spark": 32.0 + 64.0,
    }


def test_what_an_ended_child_used_is_not_lost() -> None:
    before = seconds_by_part(read_processes(), os.getpid(), {})
    subprocess.run([sys.executable, "-S", "-c", BURN], check=True)
    used = difference(seconds_by_part(read_processes(), os.getpid(), {}), before)
    assert used[OTHER] >= 0.5 - 2 / TICKS  # user and system time are rounded down, each
