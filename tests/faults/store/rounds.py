"""One round of the store suite while it lasts: its processes, and the faults that hit them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess

from airflow_abs.exchange.paths import escape
from tests.faults.store import roles
from tests.faults.store.faulty_s3 import EVERYTHING, Disturbance, FaultyS3
from tests.faults.store.roles import LEASE_SECONDS, Store, clean_all_the_time, read_all_the_time, take_part

STOP_SECONDS = 1.5 * LEASE_SECONDS
DISTURBANCES = {
    "store: 503 to 12 requests": ("503", EVERYTHING, 12, 0.0),
    "store: 503 to everything (3 s)": ("503", EVERYTHING, 0, 3.0),
    "store: 500 to 6 requests": ("500", EVERYTHING, 6, 0.0),
    "store: slow (0.5 s) for 20 requests": ("slow", EVERYTHING, 20, 0.0),
    "store: request lost": ("request lost", EVERYTHING, 2, 0.0),
    "store: answer to a put lost": ("answer lost", frozenset({"PUT", "COPY"}), 1, 0.0),
    "store: answer to a deletion lost": ("answer lost", frozenset({"DELETE", "DELETE MANY"}), 1, 0.0),
    "store: answer to a listing lost": ("answer lost", frozenset({"LIST"}), 1, 0.0),
    "store: content cut in transit": ("body cut", frozenset({"GET"}), 1, 0.0),
    "store: away (2 s)": ("request lost", EVERYTHING, 0, 2.0),
}


@dataclass(slots=True)
class Round:
    """Two runs at one target, and what hit them; `wrong` is what did not hold."""

    number: int
    mode: str
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        return {**{name: getattr(self, name) for name in self.__slots__}, "faults": dict(self.faults)}


@dataclass
class Play:
    """One round while it lasts."""

    store: Store
    s3: FaultyS3
    chance: random.Random
    target: str
    round: Round
    runs: list[str]
    tries: Counter[str] = field(default_factory=Counter)
    going: list[tuple[str, BaseProcess]] = field(default_factory=list)
    helpers: dict[str, BaseProcess] = field(default_factory=dict)

    def start(self) -> None:
        for run in self.runs:
            self.store.note("alive", run).touch()
            self.start_run(run)
        self.start_helper("gc")
        self.start_helper("reader")

    def start_run(self, run: str) -> None:
        first = 1 + roles.TRIES * self.tries[run]
        self.tries[run] += 1
        self.going.append((run, _process(take_part, self.store, run, self.target, self.round.mode, first)))

    def start_helper(self, name: str) -> None:
        work = {
            "gc": (clean_all_the_time, self.store),
            "reader": (read_all_the_time, self.store, self.target, self.runs, self.store.local / "problem"),
        }[name]
        self.helpers[name] = _process(*work)

    def kinds(self) -> dict[str, Callable[[], bool]]:
        """Each causes a fault, and says whether there was anything to hit."""
        return {
            **{name: lambda it=values: self._disturb(*it) for name, values in DISTURBANCES.items()},
            **self.s3.own_kinds(),
            "kill a run": self._kill_run,
            "stop a run beyond its lease": self._stop_run,
            "start a second try beside the first": self._start_twin,
            "kill gc": self._kill_gc,
            "stop gc (4.5 s)": lambda: self._stop(self.helpers["gc"]),
            **{
                f"object: {name}": lambda it=name: self._damage(it) for name in ("delete", "truncate", "empty", "alter")
            },
        }

    def look_after(self) -> bool:
        """Start again what was killed, note what failed; False when both runs are over."""
        for run, process in list(self.going):
            if process.is_alive():
                continue
            self.going.remove((run, process))
            if process.exitcode not in (0, -signal.SIGKILL, 4):
                self.round.wrong.append(f"{run} ended with {process.exitcode}, which is no error of ours")
            is_going = any(run == other for other, _ in self.going)
            if process.exitcode != 0 and not is_going and not self.round.wrong:
                self.start_run(run)
            if not any(run == other for other, _ in self.going):
                self.store.note("alive", run).unlink(missing_ok=True)
        for name in ("gc", "reader"):
            process = self.helpers[name]
            if not process.is_alive() and name == "reader" and process.exitcode:
                self.round.wrong.append(f"the reader ended with {process.exitcode}")
            if not process.is_alive() and process.exitcode == -signal.SIGKILL:
                self.start_helper(name)
            elif not process.is_alive() and process.exitcode:
                self.round.wrong.append(f"{name} ended with {process.exitcode}")
        return bool(self.going) and not self.round.wrong

    def end(self) -> None:
        (self.store.local / "stop").touch()
        for process in [*self.helpers.values(), *(process for _, process in self.going)]:
            process.join(20)
            if process.is_alive():
                process.kill()
        for note in self.store.local.iterdir():
            if note.name == "problem":
                self.round.wrong.append(note.read_text())
            note.unlink()

    def _disturb(self, what: str, kinds: frozenset[str], times: int, seconds: float) -> bool:
        disturbance = Disturbance(what, kinds, times, seconds)
        self.s3.disturb(disturbance)
        deadline = time.monotonic() + max(seconds, 1.5)
        while time.monotonic() < deadline and not (times and disturbance.hits >= times):
            time.sleep(0.05)
        self.s3.calm()
        return disturbance.hits > 0

    def _kill_run(self) -> bool:
        alive = [process for _, process in self.going if process.is_alive()]
        if alive:
            self.chance.choice(alive).kill()
        return bool(alive)

    def _stop_run(self) -> bool:
        alive = [process for _, process in self.going if process.is_alive()]
        return bool(alive) and self._stop(self.chance.choice(alive))

    def _start_twin(self) -> bool:
        alive = [run for run, process in self.going if process.is_alive()]
        if not alive or len(alive) > 2:
            return False
        self.start_run(self.chance.choice(alive))
        return True

    def _kill_gc(self) -> bool:
        self.helpers["gc"].kill()
        return True

    def _stop(self, process: BaseProcess) -> bool:
        with contextlib.suppress(ProcessLookupError, TypeError):
            os.kill(process.pid or 0, signal.SIGSTOP)
            time.sleep(STOP_SECONDS)
            os.kill(process.pid or 0, signal.SIGCONT)
            return True
        return False

    def _damage(self, how: str) -> bool:
        """One committed file of a producer of a run that is not over."""
        alive = {escape(run) for run, _ in self.going}
        keys = [
            key
            for key in self.s3.keys(self.store.bucket)
            if "/orders/subtask-" in key and key.endswith(".parquet") and key.split("/")[2] in alive
        ]
        if not keys:
            return False
        key = self.chance.choice(keys)
        data = self.s3.read(self.store.bucket, key)
        if data is None:
            return False
        match how:
            case "delete":
                self.s3.remove(self.store.bucket, key)
            case "alter":
                position = self.chance.randrange(len(data))
                altered = bytes([data[position] ^ (1 << self.chance.randrange(8))])
                self.s3.put(self.store.bucket, key, data[:position] + altered + data[position + 1 :])
            case _:
                self.s3.put(self.store.bucket, key, data[: len(data) // 2 if how == "truncate" else 0])
        return True


def _process(work: Callable[..., None], *arguments: object) -> BaseProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.store.roles", "s3fs", "upath.implementations.cloud"])
    process = context.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process
