"""`Kafka`: topics as the source of a stream, by the options of Spark's own source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_ENDING = "endingOffsets"
_OTHER_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp")
_SERVERS, _TOPICS = "kafka.bootstrap.servers", "subscribe"


@dataclass(frozen=True, slots=True)
class Kafka:
    """Messages of topics: `key` and `value` (BINARY), `topic`, `partition`, `offset`, `timestamp`, `timestampType`.

    The Spark server must have Spark's own Kafka source (a jar).

    Args:
        servers: Kafka's bootstrap servers, comma-separated `host:port`; templated.
        topics: their names; templated.
        options: further options of Spark's source, such as ``{"startingOffsets": "earliest"}``. They are stored next to
            the checkpoint: keep secrets in the Spark server's settings. ``{"endingOffsets": "latest"}`` makes the
            source bounded: the stream runs as a batch, which reads what is there when it starts and ends.

    Raises:
        ValueError: no server or topic, an option that repeats either, or an end that Spark's stream does not support.
    """

    servers: str
    topics: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        topics = [self.topics] if isinstance(self.topics, str) else list(self.topics)
        if not self.servers or not topics or not all(topics):
            raise ValueError(
                f"Kafka: servers are {self.servers!r} and topics {topics}; expected 'host:port' and at least one name"
            )
        again = sorted({_SERVERS, _TOPICS, "subscribePattern", "assign"} & self.options.keys())
        if again:
            raise ValueError(f"Kafka: the option {again[0]} repeats servers= or topics=; drop it")
        for name, value in self.options.items():
            is_latest = name.lower() == _ENDING.lower() and value == "latest"
            if not is_latest and name.lower() in {each.lower() for each in (_ENDING, *_OTHER_ENDS)}:
                raise ValueError(
                    f"Kafka: the option {name} is {value!r}; Spark's stream ends at no given offset or time, only at "
                    f"what is there when it starts: expected {_ENDING}='latest'. Filter by offset or timestamp in the "
                    "transform"
                )
        object.__setattr__(self, "topics", tuple(topics))
        object.__setattr__(self, "options", dict(self.options))

    @property
    def spark_options(self) -> dict[str, str]:
        """All of them, as Spark's stream takes them: its end is its trigger's."""
        options = {name: value for name, value in self.options.items() if name.lower() != _ENDING.lower()}
        return {**options, _SERVERS: self.servers, _TOPICS: ",".join(self.topics)}

    @property
    def bound(self) -> str:
        """What says that it is bounded; "" if it is not."""
        ends = any(name.lower() == _ENDING.lower() for name in self.options)
        return f"{_ENDING}='latest'" if ends else ""

    def to_json(self) -> dict[str, Any]:
        return {"kind": "kafka", "servers": self.servers, "topics": list(self.topics), "options": dict(self.options)}
