"""Where those who hand out the slots of one Spark server see each other: the settings of a session that they share.

Processes of Airflow that run triggers reach no database, but they all reach the server whose slots they hand out. Each
posts under its own name how many it holds or waits for. There is no clock to agree on: whose note has not changed for a
while, by the reader's own clock, is gone. With the server the notes are gone as well.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.operations import derive_id
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.errors import SparkOperationError

# Notes are rewritten every 10 s at least.
GONE_SECONDS = 30.0
_PREFIX = "airflow_abs.slots."
_SESSION_IS_OVER = "INVALID_HANDLE"


@dataclass(slots=True)
class SlotBoard:
    """The notes of all who hand out the slots called `topic` as the same Spark user.

    Unused sessions end on the server, and their ids with them. So there is a row of ids, the same for
    everybody, and the first one that has not ended is the one in use.
    """

    topic: str
    clock: Callable[[], float] = time.monotonic
    me: str = field(default_factory=lambda: uuid.uuid4().hex)
    _session: int = 0
    _notes: int = 0
    _seen: dict[str, tuple[str, float]] = field(default_factory=dict)

    @property
    def session_id(self) -> str:
        """Of the session in use."""
        return derive_id("slots", self.topic, str(self._session))

    async def post(self, connection: Connection, demand: int) -> dict[str, int]:
        """Say how many slots are asked for here; what everybody asks for, by name, this one included.

        Raises:
            SparkOperationError: the server does not answer, or does not let us in.
        """
        self._notes += 1
        while True:
            try:
                await self._set(connection, f"{demand} {self._notes}")
                break
            except SparkOperationError as error:
                if not error.error_class.startswith(_SESSION_IS_OVER):
                    self._session = 0  # maybe another server answers next, which has not ended any
                    raise
                self._session += 1
        return await self._alive(connection) | {self.me: demand}

    async def leave(self, connection: Connection) -> None:
        """Take the own note away."""
        await self._unset(connection, self.me)

    async def _alive(self, connection: Connection) -> dict[str, int]:
        """What the others ask for; notes of those who are gone are taken away."""
        operation = protos().ConfigRequest.Operation(get_all=protos().ConfigRequest.GetAll(prefix=_PREFIX))
        notes = {pair.key: pair.value for pair in (await self._configure(connection, operation)).pairs}
        now = self.clock()
        others = {key.removeprefix(_PREFIX): note for key, note in notes.items()}
        others.pop(self.me, None)
        self._seen = {
            name: self._seen[name] if name in self._seen and self._seen[name][0] == note else (note, now)
            for name, note in others.items()
        }
        for name in [name for name, (_, since) in self._seen.items() if now - since > GONE_SECONDS]:
            await self._unset(connection, name)
            del others[name]
        return {name: int(note.split()[0]) for name, note in others.items()}

    async def _set(self, connection: Connection, note: str) -> None:
        proto = protos()
        pair = proto.KeyValue(key=f"{_PREFIX}{self.me}", value=note)
        await self._configure(
            connection, proto.ConfigRequest.Operation(set=proto.ConfigRequest.Set(pairs=[pair], silent=False))
        )

    async def _unset(self, connection: Connection, name: str) -> None:
        proto = protos()
        operation = proto.ConfigRequest.Operation(unset=proto.ConfigRequest.Unset(keys=[f"{_PREFIX}{name}"]))
        await self._configure(connection, operation)

    async def _configure(self, connection: Connection, operation: Any) -> Any:
        request = protos().ConfigRequest(
            session_id=self.session_id,
            user_context=connection.user_context(),
            client_type=connection.client_type,
            operation=operation,
        )
        return await connection.call("Config", request, patience=0)
