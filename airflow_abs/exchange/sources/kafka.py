"""`Kafka`: topics as the source or the sink of a stream, by the options of Spark's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_ENDING = "endingOffsets"
_OTHER_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp")
_TOPICS = "subscribe"
_OPTIONAL = ("conn_id", "format", "schema")
_FORMATS = ("", "json", "avro")
_SERVERS = "kafka.bootstrap.servers"
_OF_CONNECTION = "from-the-connection:9"
"""In the place of servers that are known when the query starts: Spark refuses to analyze a source without any."""
_SECRET = re.compile(r"jaas|password|keystore\.key|secret", re.IGNORECASE)


def _check_no_secret(options: Mapping[str, str]) -> None:
    for name in options:
        if _SECRET.search(name):
            raise ValueError(
                f"Kafka: the option {name} is a secret, and options are stored next to the checkpoint; give conn_id=, "
                "an Airflow connection that has it"
            )


@dataclass(frozen=True, slots=True)
class Kafka:
    """Messages of topics: `key` and `value` (BINARY), `topic`, `partition`, `offset`, `timestamp`, `timestampType`.

    As a sink, one topic that gets a message for each row, **at least once**: Spark rewrites a batch that failed midway.
    So rows need a `key` by which readers drop what is there twice, besides `value`; both are texts or bytes.

    The Spark server must have Spark's own Kafka connector (jars).

    Args:
        servers: Kafka's bootstrap servers, comma-separated `host:port`; templated. Leave it out with `conn_id`.
        topics: their names; templated.
        options: further options of Spark's source, such as ``{"startingOffsets": "earliest"}``. They are stored next to
            the checkpoint, so secrets are refused. ``{"endingOffsets": "latest"}`` makes the source bounded: the stream
            runs as a batch, which reads what is there when it starts and ends. Of a sink, settings of Kafka's producer,
            such as ``{"kafka.linger.ms": "5"}``.
        conn_id: Airflow connection of type ``kafka`` that has the bootstrap servers and what SASL and TLS need; it is
            read at every start of the query, and its secrets are stored nowhere.
        format: what `value` holds: ``json`` or ``avro`` makes it a STRUCT by `schema`; a message that does not fit
            fails its batch, as text does in `Files`. By default it stays bytes.
        schema: columns as in SQL for ``json``, Avro's own (JSON text) for ``avro``.

    Raises:
        ValueError: no topic, not one of servers and a connection, a format without a schema or the reverse, an option
            that repeats another argument or is a secret, or an end that Spark's stream does not support.
    """

    servers: str = ""
    topics: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    conn_id: str = ""
    format: str = ""
    schema: str = ""

    def __post_init__(self) -> None:
        topics = [self.topics] if isinstance(self.topics, str) else list(self.topics)
        if bool(self.servers) == bool(self.conn_id) or not topics or not all(topics):
            raise ValueError(
                f"Kafka: servers are {self.servers!r}, conn_id is {self.conn_id!r} and topics are {topics}; expected "
                "servers='host:port' or a conn_id, and at least one topic"
            )
        again = sorted({_SERVERS, _TOPICS, "subscribePattern", "assign"} & self.options.keys())
        if again:
            raise ValueError(f"Kafka: the option {again[0]} repeats servers= or topics=; drop it")
        if self.format not in _FORMATS or bool(self.format) != bool(self.schema):
            raise ValueError(
                f"Kafka: format is {self.format!r} and schema is {self.schema!r}; expected format='json' or 'avro' "
                "with a schema of the value, or neither"
            )
        _check_no_secret(self.options)
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
        return {**options, _SERVERS: self.servers or _OF_CONNECTION, _TOPICS: ",".join(self.topics)}

    @property
    def sink_options(self) -> dict[str, str]:
        """As Spark's sink takes them."""
        return {**self.options, _SERVERS: self.servers or _OF_CONNECTION, "topic": self.topics[0]}

    @property
    def bound(self) -> str:
        """What says that it is bounded; "" if it is not."""
        ends = any(name.lower() == _ENDING.lower() for name in self.options)
        return f"{_ENDING}='latest'" if ends else ""

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Kafka:
        given = {name: stored[name] for name in _OPTIONAL if name in stored}
        return Kafka(stored["servers"], stored["topics"], stored["options"], **given)

    def to_json(self) -> dict[str, Any]:
        stored = {"kind": "kafka", "servers": self.servers, "topics": list(self.topics), "options": dict(self.options)}
        return stored | {name: value for name in _OPTIONAL if (value := getattr(self, name))}
