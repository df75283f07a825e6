"""Settings of the package: Airflow's section `[adaptive_spark]`, and per-job arguments that take precedence over it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from airflow_abs.core.decide.region_inputs import Strategy
from airflow_abs.core.errors import InvalidValueError

SECTION = "adaptive_spark"

Durability = Literal["auto", "always"]
"""Which edges are written: those for which it pays, or all."""

_TARGET_BYTES = 128 * 2**20
_MOST_WAVES = 2
"""Of a fan-out whose target nobody set: the second one evens out what the first did not, a third would only be more
tasks, each of which costs Airflow a second of CPU or two (docs/how-it-decides.md)."""

_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)


DEFAULTS: dict[str, str] = {
    "exchange": "",
    "target_bytes": "auto",
    "min_parallelism": "1",
    "max_parallelism": "128",
    "default_source_parallelism": "",
    "strategy": "balanced",
    "slots": "",
    "durability": "auto",
    "share_tasks": "True",
    "failures_per_run": "0.05",
    "failures_per_day": "1",
    "local_bytes": "",
    "deferrable": "True",
    "defer_after": "10",
    "start_from_trigger": "False",
    "resource_timeout": "300",
    "resource_stabilization": "10",
    "stall_after": "600",
    "hot_keys": "True",
    "inference_timeout": "30",
    "embedded_folder": "",
    "allow_token_commands": "False",
    "installation": "",
}
"""Every option of the section with its default, as Airflow stores it."""

DESCRIPTIONS: dict[str, str] = {
    "exchange": "URI of shared storage for the data between regions; Airflow and Spark must both reach it.",
    "target_bytes": "Bytes that one subtask should read, such as 256MB; auto: 128MB, or more if that saves waves.",
    "min_parallelism": "Fewest subtasks of a vertex.",
    "max_parallelism": "Most subtasks of a vertex, and the number of subpartitions that its inputs are cut into.",
    "default_source_parallelism": "Most subtasks of a vertex that reads files; empty: max_parallelism.",
    "strategy": "balanced (any number, ranges of about equal bytes) or power_of_two (Flink 1.15's rule).",
    "slots": "Spark tasks that run at once; empty: what the Spark server says.",
    "durability": "auto (an edge is written when that pays, else kept inside Spark) or always (every edge is written).",
    "share_tasks": "With always: steps of one small subtask each run in one task; every edge is written all the same.",
    "failures_per_run": "Prior of auto: stops for data or code in a run of a job; 0.05 is one run in twenty.",
    "failures_per_day": "Prior of auto: failures of machines in 24 hours of Spark's work.",
    "local_bytes": "Most that auto lets one operation hold in memory and on local disks; empty: 16 GB for each slot.",
    "deferrable": "Hand subtasks over to the triggerer when they take longer than defer_after or wait for a slot.",
    "defer_after": "Seconds that a worker awaits a subtask before the triggerer takes it over.",
    "start_from_trigger": "Make decisions and run subtasks in the triggerer, without workers and Airflow's pools.",
    "resource_timeout": "Seconds that a subtask waits for a cluster without any slot; negative: without end.",
    "resource_stabilization": "Seconds that a run waits for the slots that plan saw before it goes on with fewer.",
    "stall_after": "Seconds without any progress on Spark after which the log of a subtask warns, again and again.",
    "hot_keys": "Look for the key behind a hot subpartition; its value is then in the exchange, the log and the page.",
    "inference_timeout": "Seconds that a vertex's tables have to say how much there is to read, when it is decided.",
    "embedded_folder": "Where the embedded Spark server of a host keeps its state and log; empty: in AIRFLOW_HOME.",
    "allow_token_commands": "Connections may name a program or a function that gives the token of their Spark server.",
    "installation": "Names this Airflow in the tables that its jobs publish to; empty: a Variable that plan makes.",
}


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What binds one job. `slots` None means: as many as the Spark server says it has; `most_waves` None: as many as
    the target asks for."""

    exchange: str
    target_bytes: int
    most_waves: int | None
    min_parallelism: int
    max_parallelism: int
    default_source_parallelism: int | None
    strategy: Strategy
    slots: int | None
    durability: Durability
    share_tasks: bool
    failures_per_run: float
    failures_per_day: float
    local_bytes: int | None
    deferrable: bool
    defer_after: float
    start_from_trigger: bool
    resource_timeout: float
    resource_stabilization: float
    stall_after: float
    hot_keys: bool
    inference_timeout: float

    def options(self) -> dict[str, Any]:
        """The part that decides, as the plan stores it."""
        names = (
            "target_bytes", "most_waves", "min_parallelism", "max_parallelism", "default_source_parallelism",
            "strategy", "slots", "durability", "share_tasks", "failures_per_run", "failures_per_day", "local_bytes",
            "hot_keys", "inference_timeout",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def slot_options(self) -> dict[str, Any]:
        """The part that says how to wait for a slot; seconds."""
        return {name: getattr(self, name) for name in ("slots", "resource_timeout", "resource_stabilization")}


def read_job_settings(overrides: dict[str, Any]) -> JobSettings:
    """The section's values, replaced by every override that is not None.

    Raises:
        InvalidValueError: a value is outside what its meaning allows, or the exchange is not set.
    """
    values = {name: _read(name) for name in DEFAULTS}
    values |= {name: value for name, value in overrides.items() if value is not None}
    grows = str(values["target_bytes"]).strip().lower() == "auto"
    settings = JobSettings(
        exchange=str(values["exchange"] or ""),
        target_bytes=_TARGET_BYTES if grows else parse_bytes("target_bytes", values["target_bytes"]),
        most_waves=_MOST_WAVES if grows else None,
        min_parallelism=_count("min_parallelism", values["min_parallelism"]),
        max_parallelism=_count("max_parallelism", values["max_parallelism"]),
        default_source_parallelism=_optional_count("default_source_parallelism", values["default_source_parallelism"]),
        strategy=values["strategy"],
        slots=_optional_count("slots", values["slots"]),
        durability=values["durability"],
        share_tasks=_flag(values["share_tasks"]),
        failures_per_run=_number("failures_per_run", values["failures_per_run"]),
        failures_per_day=_number("failures_per_day", values["failures_per_day"]),
        local_bytes=parse_bytes("local_bytes", values["local_bytes"]) if values["local_bytes"] else None,
        deferrable=_flag(values["deferrable"]),
        defer_after=float(values["defer_after"]),
        start_from_trigger=_flag(values["start_from_trigger"]),
        resource_timeout=_seconds("resource_timeout", values["resource_timeout"]),
        resource_stabilization=_seconds("resource_stabilization", values["resource_stabilization"]),
        stall_after=_seconds("stall_after", values["stall_after"]),
        hot_keys=_flag(values["hot_keys"]),
        inference_timeout=_seconds("inference_timeout", values["inference_timeout"]),
    )
    _check(settings)
    return settings


def parse_bytes(name: str, value: object) -> int:
    """A size: an integer of bytes, or text such as ``"256MB"`` or ``"1 GiB"`` (powers of 1024).

    Raises:
        InvalidValueError: it is neither, or below 1.
    """
    found = _SIZE.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
    size = int(float(found[1]) * _UNITS[found[2].lower()]) if found else 0
    if size < 1:
        raise InvalidValueError(
            f"{name} is {value!r}; expected a size of at least 1 byte, such as 268435456 or '256MB'"
        )
    return size


def _read(name: str) -> Any:
    from airflow.sdk.configuration import conf

    return conf.get(SECTION, name, fallback=DEFAULTS[name]) or DEFAULTS[name]


def _check(settings: JobSettings) -> None:
    if not settings.exchange:
        raise InvalidValueError(
            "no exchange is set; give AdaptiveSparkJob(exchange='s3://bucket/exchange') or the Airflow option "
            f"[{SECTION}] exchange a path that Airflow and Spark both reach"
        )
    for name in ("stall_after", "inference_timeout"):
        if (seconds := getattr(settings, name)) <= 0:
            raise InvalidValueError(f"{name} is {seconds:g}; expected a number of seconds above 0")
    if settings.strategy not in ("balanced", "power_of_two"):
        raise InvalidValueError(f"strategy is {settings.strategy!r}; expected 'balanced' or 'power_of_two'")
    if settings.durability not in ("auto", "always"):
        raise InvalidValueError(f"durability is {settings.durability!r}; expected 'auto' or 'always'")
    if settings.min_parallelism > settings.max_parallelism:
        raise InvalidValueError(
            f"min_parallelism is {settings.min_parallelism}, above max_parallelism {settings.max_parallelism}; "
            "lower the one or raise the other"
        )
    if settings.start_from_trigger and not settings.deferrable:
        raise InvalidValueError(
            "start_from_trigger=True and deferrable=False contradict each other: subtasks run in the triggerer, or to "
            "their end in a worker; drop one of the two"
        )
    if settings.resource_stabilization < 0:
        raise InvalidValueError(
            f"resource_stabilization is {settings.resource_stabilization:g}; expected at least 0 seconds"
        )


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not str(value).strip().isdigit() or int(str(value)) < 1:
        raise InvalidValueError(f"{name} is {value!r}; expected an integer of at least 1")
    return int(str(value))


def _optional_count(name: str, value: object) -> int | None:
    return None if value in (None, "") else _count(name, value)


def _number(name: str, value: object) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise InvalidValueError(f"{name} is {value!r}; expected a number of at least 0")
    return number


def _seconds(name: str, value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise InvalidValueError(f"{name} is {value!r}; expected a number of seconds") from None


def _flag(value: object) -> bool:
    return value if isinstance(value, bool) else str(value).strip().lower() in ("true", "1", "yes", "on", "t")
