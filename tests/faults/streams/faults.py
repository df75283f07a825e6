"""Faults of streams, caused for real: processes killed and stopped, a disk filled, a file that is none."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.injection import executors_of
from tests.faults.streams.queries import QUERIES
from tests.faults.streams.stage import Stage
from tests.faults.streams.supervisor import LEASE_SECONDS

FULL_SECONDS = 3.0


@dataclass(slots=True)
class StreamInjector:
    """Causes faults on a stage; `chance` decides which of several targets."""

    stage: Stage
    chance: random.Random

    def kinds(self) -> dict[str, Callable[[], str]]:
        """Every kind by name; each gives what was hit.

        Raises:
            AssertionError: from a kind, if not all of it was as it has to be.
        """
        kinds = {
            "kill supervisor": self._kill_supervisor,
            "kill Connect server": self._kill_server,
            "kill Spark worker": self._kill_executor,
            "stop supervisor beyond its lease": self._stop_supervisor,
            "poisoned file": self._poison,
        }
        return kinds | ({"disk full": self._fill_disk} if self.stage.is_small else {})

    def _kill_supervisor(self) -> str:
        process = self.stage.supervisor
        process.kill()
        process.wait()
        self.stage.start_supervisor()
        return str(process.pid)

    def _kill_server(self) -> str:
        pid = self.stage.server_pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return str(pid)

    def _kill_executor(self) -> str:
        executors = executors_of(self.stage.server_pid)
        if not executors:  # Spark starts one just now
            return "none"
        pid = self.chance.choice(executors)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return str(pid)

    def _stop_supervisor(self) -> str:
        """Another process takes its streams over meanwhile, of the same task or of another; it must let go of them."""
        stopped = self.stage.supervisor
        stopped.send_signal(signal.SIGSTOP)
        time.sleep(LEASE_SECONDS + 1)
        another = self.chance.random() < 0.5
        before = len(self.stage.told())
        self.stage.start_supervisor(another=another)
        self.stage.deliver()
        self.stage.wait(self.stage.is_done)
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait(60) == 0, "a supervisor that was stopped beyond its lease did not end"
        let_go = [each["stream"] for each in self.stage.told()[before:] if each["what"] == "let go"]
        assert sorted(let_go) == sorted(query.name for query in QUERIES), let_go
        return f"{stopped.pid}, taken over by {'another task' if another else 'the same task'}"

    def _poison(self) -> str:
        """The stream is given up and names the file; it goes on when the file is mended and the task was cleared."""
        query = self.chance.choice(QUERIES)
        before = len(self.stage.told())
        mend = self.stage.deliver_poisoned(query)

        def given_up() -> list[str]:
            return [each["why"] for each in self.stage.told()[before:] if each["stream"] == query.name]

        self.stage.wait(lambda: any("poisoned" in why for why in given_up()))
        mend()
        self.stage.say_again(query)
        return query.name

    def _fill_disk(self) -> str:
        filler = self.stage.small / "filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(b"\0" * (1 << 16))
                file.flush()
        time.sleep(FULL_SECONDS)
        filler.unlink()
        return str(self.stage.small)
