"""Every setting, once: its type, default and bounds, what it does in a sentence, and where it is set.

Airflow's configuration, the options of jobs and vertices, the reference page, every check and the record in
`plan.json` follow from the fields of these classes. To add a setting is to add a field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from math import isfinite
from typing import Any, Literal, TypeVar

from airflow_abs.core.decide.parallelism import Bounds, normalise_bounds
from airflow_abs.core.decide.region_inputs import Strategy
from airflow_abs.core.errors import InvalidValueError

SECTION = "adaptive_spark"
"""Of Airflow's configuration."""

Durability = Literal["auto", "always"]
"""Which edges are written: those for which it pays, or all."""

Unsplittable = Literal["whole", "refuse"]
"""For a vertex that cannot run in parts: run it as one subtask, or fail."""

_MAX_PARALLELISM = 128
_TARGET_BYTES = 128 * 2**20
_MOST_WAVES = 2
"""Of a fan-out whose target is not set: the second one evens out what the first did not, a third would only be more
tasks, each of which costs Airflow a second of CPU or two (docs/how-it-decides.md)."""

_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)


class Where(StrEnum):
    """Where a setting may be set; the later one takes precedence."""

    SECTION = "section"
    JOB = "job"
    JOB_OPTIONS = "JobOptions"
    VERTEX_OPTIONS = "VertexOptions"
    EDGE = "edge"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a setting may be, in words; `read` makes it of a value or its text, or raises ValueError."""

    expected: str
    read: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting, without its name and type. `default` is a text, as Airflow stores it; "" if there is
    none. `more` is where the documentation says more, below docs. `empty` makes its value when it is not set."""

    default: str
    kind: Kind
    sentence: str
    where: tuple[Where, ...]
    more: str | None = None
    empty: Callable[[], Any] = lambda: None

    def read(self, name: str, value: object) -> Any:
        """The value, of itself or its text; None for "".

        Raises:
            InvalidValueError: it is not what is expected.
        """
        if value is None or value == "":
            return None
        try:
            return self.kind.read(value)
        except (ValueError, TypeError, AttributeError):
            raise InvalidValueError(f"{name} is {value!r}; expected {self.kind.expected}") from None


def setting(
    default: str,
    kind: Kind,
    sentence: str,
    *where: Where,
    more: str | None = None,
    empty: Callable[[], Any] = lambda: None,
) -> Any:
    """A field for a setting."""
    return field(default_factory=empty, metadata={"setting": Setting(default, kind, sentence, where, more, empty)})


Options = TypeVar("Options", bound="JobOptions | VertexOptions")


def settings_of(kind: type) -> Iterator[tuple[str, Setting]]:
    """The settings that are fields of a class, by name."""
    for each in fields(kind):
        if (found := each.metadata.get("setting")) is not None:
            yield each.name, found


def _count(value: object) -> int:
    if isinstance(value, bool) or int(str(value)) < 1:
        raise ValueError
    return int(str(value))


def _number(
    expected: str, *, at_least: float | None = None, above: float | None = None, below: float | None = None
) -> Kind:
    def read(value: object) -> float:
        number = float(str(value))
        is_low = (at_least is not None and number < at_least) or (above is not None and number <= above)
        if is_low or (below is not None and number >= below) or not isfinite(number):
            raise ValueError
        return number

    return Kind(expected, read)


def _one_of(*names: str) -> Kind:
    def read(value: object) -> object:
        if value not in names:
            raise ValueError
        return value

    return Kind(" or ".join(map(repr, names)), read)


def _flag(value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "1", "yes", "on", "t", "false", "0", "no", "off", "f"):
        raise ValueError
    return text in ("true", "1", "yes", "on", "t")


def _size(value: object) -> int:
    found = _SIZE.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
    size = int(float(found[1]) * _UNITS[found[2].lower()]) if found else 0
    if size < 1:
        raise ValueError
    return size


def _size_or_auto(value: object) -> int | Literal["auto"]:
    return "auto" if str(value).strip().lower() == "auto" else _size(value)


def _spark_conf(value: Mapping[str, object]) -> dict[str, str]:
    """Spark's settings are texts; Python's True is its ``true``."""
    return {key: str(each).lower() if isinstance(each, bool) else str(each) for key, each in value.items()}


def _paths(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(each, str) for each in value):  # type: ignore[attr-defined]
        raise ValueError
    return tuple(value)  # type: ignore[arg-type]


STRATEGY = _one_of("balanced", "power_of_two")
DURABILITY = _one_of("auto", "always")
UNSPLITTABLE = _one_of("whole", "refuse")
COUNT = Kind("an integer of at least 1", _count)
NUMBER = _number("a number of at least 0", at_least=0)
SHARE = _number("a number of at least 0 and below 1", at_least=0, below=1)
SECONDS = _number("a number of seconds")
SECONDS_FROM_0 = _number("a number of seconds, at least 0", at_least=0)
SECONDS_ABOVE_0 = _number("a number of seconds above 0", above=0)
FLAG = Kind("True or False", _flag)
SIZE = Kind("a size of at least 1 byte, such as 268435456 or '256MB'", _size)
SIZE_OR_AUTO = Kind("a size of at least 1 byte, such as 268435456 or '256MB', or 'auto'", _size_or_auto)
TEXT = Kind("a text", str)
SPARK_CONF = Kind("a dict of Spark's settings, such as {'spark.sql.ansi.enabled': False}", _spark_conf)
PATHS = Kind("a list of paths, such as ['libs/prices.zip']", _paths)

_OPTION = (Where.SECTION, Where.JOB_OPTIONS)
_ARGUMENT = (Where.SECTION, Where.JOB)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Settings that few jobs need: ``AdaptiveSparkJob(..., options=JobOptions(...))``.

    A setting that you leave out comes from Airflow's configuration. See the reference of settings.

    Raises:
        InvalidValueError: a setting is invalid.
    """

    min_parallelism: int = setting("1", COUNT, "The fewest subtasks of a vertex.", *_OPTION)
    parallelism: int | None = setting(
        "",
        COUNT,
        "Flink's parallelism.default: the max_parallelism of a job that sets none. To fix one vertex, set "
        "parallelism on the vertex.",
        *_OPTION,
        more="how-it-decides.md#precedence",
    )
    default_source_parallelism: int | None = setting(
        "",
        COUNT,
        "The most subtasks of a vertex that only reads sources (with power_of_two, their number); empty: "
        "max_parallelism.",
        *_OPTION,
    )
    strategy: Strategy = setting(
        "balanced",
        STRATEGY,
        "balanced (any number, ranges of about equal bytes) or power_of_two (Flink 1.15's rule).",
        *_OPTION,
    )
    unsplittable: Unsplittable = setting(
        "whole",
        UNSPLITTABLE,
        "For a vertex that cannot run in parts: whole (run it as one subtask, one Spark operation over all slots; plan "
        "warns) or refuse (plan fails).",
        *_OPTION,
        more="how-it-decides.md#why-a-step-may-run-in-parts",
    )
    max_broadcast_ratio: float | None = setting(
        "",
        SHARE,
        "Share of the target that broadcast inputs may use up; a subtask then reads less of its own. Empty: 0.5 with "
        "power_of_two, 0 with balanced.",
        *_OPTION,
    )
    slots: int | None = setting("", COUNT, "Spark tasks that run at once; empty: ask the Spark server.", *_OPTION)
    share_tasks: bool = setting(
        "True",
        FLAG,
        "With always: run small steps in one task. Their edges are still written.",
        *_OPTION,
        more="how-it-decides.md#one-task-for-several-steps",
    )
    chaining: bool = setting(
        "True",
        FLAG,
        "With always: run a step that reads one other step row by row in the subtasks of that step, so that no row is "
        "written in between.",
        *_OPTION,
        more="how-it-decides.md#chains",
    )
    durability_budget: float = setting(
        "0.15",
        NUMBER,
        "Share of a job's predicted seconds that auto may spend on writing edges as insurance; 0: write an edge only "
        "where a failure is expected to cost more.",
        *_OPTION,
        more="how-it-decides.md#which-edges-are-written",
    )
    failures_per_run: float = setting(
        "0.05",
        NUMBER,
        "What auto assumes before it has seen runs: how often data or code stops a run; 0.05 is one run in twenty, 0 "
        "means never.",
        *_OPTION,
    )
    failures_per_day: float = setting(
        "1",
        NUMBER,
        "What auto assumes before it has seen runs: machine failures in 24 hours of Spark's work; 0 means never.",
        *_OPTION,
    )
    local_bytes: int | str | None = setting(
        "",
        SIZE,
        "The most that auto lets one operation hold in the cluster's memory and local disks, such as 100GB; empty: 16 "
        "GB per slot.",
        *_OPTION,
    )
    deferrable: bool = setting(
        "True",
        FLAG,
        "Hand subtasks over to the triggerer when they take longer than defer_after or wait for a slot.",
        *_OPTION,
        more="limits.md#pools-and-other-limits",
    )
    defer_after: float = setting(
        "10", SECONDS_FROM_0, "Seconds that a worker waits for a subtask before the triggerer takes it over.", *_OPTION
    )
    start_from_trigger: bool = setting(
        "False",
        FLAG,
        "Make decisions and run subtasks in the triggerer, without workers. Slots limit them instead of Airflow's "
        "pools.",
        *_OPTION,
        more="limits.md#subtasks-without-workers",
    )
    resource_timeout: float = setting(
        "300",
        SECONDS,
        "Seconds that `plan` and a subtask wait for a cluster without executors; negative: forever.",
        *_OPTION,
    )
    resource_stabilization: float = setting(
        "10",
        SECONDS_FROM_0,
        "Seconds that a run waits for the slots that plan saw before it continues with fewer.",
        *_OPTION,
    )
    stall_after: float = setting(
        "600",
        SECONDS_ABOVE_0,
        "A subtask logs a warning after this many seconds without progress on Spark, and again after each such period.",
        *_OPTION,
    )
    hot_keys: bool = setting(
        "True",
        FLAG,
        "Look for the key behind a hot subpartition. Its value, which may be personal data, then appears in the "
        "exchange, in the log and on the page.",
        *_OPTION,
        more="seeing-a-run.md#hot-keys",
    )
    inference_timeout: float = setting(
        "30",
        SECONDS_ABOVE_0,
        "Time limit in seconds for tables to report their size when a vertex is decided.",
        *_OPTION,
        more="how-it-decides.md#the-size-of-a-source",
    )
    spark_conf: Mapping[str, Any] = setting(
        "", SPARK_CONF, "Spark session settings for plan and all subtasks.", Where.JOB_OPTIONS, empty=dict
    )
    py_files: Sequence[str] = setting(
        "",
        PATHS,
        "Python code that functions of transforms import on Spark: paths of .py, .zip and .whl files, relative to the "
        "DAG file's folder. Plan sends a copy to every Spark session of a run.",
        Where.JOB_OPTIONS,
        more="connections.md#python-code-of-transforms",
        empty=tuple,
    )

    def __post_init__(self) -> None:
        _read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings(JobOptions):
    """The settings of one job, with defaults for those that are left out.

    `slots` None means as many as the Spark server says it has; `most_waves` None as many as the target asks for;
    `max_parallelism` falls back to `parallelism`, then to 128.

    Raises:
        InvalidValueError: a setting is invalid, or two contradict each other.
    """

    target_bytes: int = setting(
        "auto",
        SIZE_OR_AUTO,
        "Bytes that one subtask should read, such as 256MB; auto: 128MB, or up to 1GB where that saves waves.",
        *_ARGUMENT,
        more="how-it-decides.md#the-number",
    )
    max_parallelism: int = setting(
        "",
        COUNT,
        "The most subtasks of a vertex, and the number of subpartitions that its inputs are cut into; empty: "
        "parallelism, or 128 if that is empty too.",
        *_ARGUMENT,
    )
    durability: Durability = setting(
        "auto",
        DURABILITY,
        "auto (write an edge where that pays, otherwise keep it inside Spark) or always (write every edge except in "
        "chains).",
        *_ARGUMENT,
        more="how-it-decides.md#which-edges-are-written",
    )
    local_bytes: int | None = field(default=None, metadata=JobOptions.__dataclass_fields__["local_bytes"].metadata)
    most_waves: int | None = None

    def __post_init__(self) -> None:
        _read_fields(self, defaults=True)
        if self.max_parallelism is None:
            object.__setattr__(self, "max_parallelism", self.parallelism or _MAX_PARALLELISM)
        if self.target_bytes == "auto":  # type: ignore[comparison-overlap]
            object.__setattr__(self, "target_bytes", _TARGET_BYTES)
            object.__setattr__(self, "most_waves", _MOST_WAVES)
        if self.min_parallelism > self.max_parallelism:
            raise InvalidValueError(
                f"min_parallelism is {self.min_parallelism}, above max_parallelism {self.max_parallelism}; "
                "lower one or raise the other"
            )
        if self.strategy == "power_of_two":
            normalise_bounds(Bounds(self.min_parallelism, self.max_parallelism))
        if self.start_from_trigger and not self.deferrable:
            raise InvalidValueError(
                "start_from_trigger=True and deferrable=False contradict each other: subtasks run in the triggerer, "
                "or to completion in a worker; drop one of the two"
            )

    def slot_options(self) -> dict[str, Any]:
        """The part that says how to wait for a slot; seconds."""
        return {name: getattr(self, name) for name in ("slots", "resource_timeout", "resource_stabilization")}

    def told(self) -> dict[str, Any]:
        """What may be shown to anybody; Spark's settings may hold secrets."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _UNTOLD}


_UNTOLD = ("spark_conf", "py_files")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """What one installation of Airflow sets in addition to the defaults of its jobs."""

    exchange: str | None = setting(
        "",
        TEXT,
        "URI of shared storage for the data between regions; Airflow and Spark must both reach it.",
        *_ARGUMENT,
    )
    embedded_folder: str | None = setting(
        "",
        TEXT,
        "Folder for the state and log of the host's embedded Spark server; empty: in AIRFLOW_HOME.",
        Where.SECTION,
    )
    allow_token_commands: bool = setting(
        "False",
        FLAG,
        "Allow connections to name a program or a function that returns the token of their Spark server. Anyone who "
        "may edit connections can then run code on Airflow's hosts.",
        Where.SECTION,
        more="managed.md",
    )
    installation: str | None = setting(
        "",
        TEXT,
        "Name of this Airflow in what its jobs publish: up to 64 letters, digits, '_', '.' or '-'; empty: the first "
        "plan draws one and keeps it in the Variable airflow_abs_installation. Set it if a copy of the metadata "
        "database, such as staging made from production, publishes to the same places.",
        Where.SECTION,
        more="tables.md#sinks",
    )

    def __post_init__(self) -> None:
        _read_fields(self, defaults=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexOptions:
    """How one vertex runs: ``AdaptiveSparkOperator(..., options=VertexOptions(...))``.

    Each setting may be left out; the reference of settings says what it does.

    Raises:
        InvalidValueError: a setting is invalid.
    """

    parallelism: int | None = setting(
        "", COUNT, "Fixed number of subtasks; empty: decided on the day.", Where.VERTEX_OPTIONS
    )
    max_parallelism: int | None = setting(
        "",
        COUNT,
        "The most subtasks of this vertex, and the number of subpartitions that its inputs are cut into; empty: the "
        "job's.",
        Where.VERTEX_OPTIONS,
    )
    schema: str | None = setting(
        "",
        TEXT,
        "The columns that the vertex promises to return, as DDL, such as region STRING, revenue DECIMAL(18,2). Plan "
        "compares names, types and NOT NULL with Spark's analysis of the transform.",
        Where.VERTEX_OPTIONS,
        more="tables.md#schemas-and-expectations",
    )
    spark_conf: Mapping[str, Any] = setting(
        "",
        SPARK_CONF,
        "Spark session settings for this vertex, in plan and all subtasks; they take precedence over the job's.",
        Where.VERTEX_OPTIONS,
        empty=dict,
    )
    join: str | None = setting(
        "",
        TEXT,
        "inner, left, right, full, semi or anti: asserts that the transform is such a join of its two hash inputs. "
        "Plan fails if its one join is of another type, and warns if no hot key of it may be spread over several "
        "subtasks. Hot keys are spread without it, too.",
        Where.VERTEX_OPTIONS,
    )
    deterministic: bool = setting(
        "True",
        FLAG,
        "False if the transform returns different rows when it reruns on the same input. If its output is lost, "
        "everything that has read it reruns, too.",
        Where.VERTEX_OPTIONS,
    )
    per_subtask: bool = setting(
        "False",
        FLAG,
        "True if you want a result for each subtask's part (a partial total, some rows of each). Plan then asks for no "
        "proof that the parts add up to the result for the whole table.",
        Where.VERTEX_OPTIONS,
    )
    edge_columns: str = setting(
        "used",
        _one_of("used", "all"),
        "used: write only the columns and rows that readers need; all: write every column and row, for people who look "
        "into the files.",
        Where.VERTEX_OPTIONS,
        more="how-it-decides.md#what-an-edge-carries",
    )

    def __post_init__(self) -> None:
        _read_fields(self, defaults=True)


def check_options(who: str, options: object, kind: type[Options], others: Mapping[str, object]) -> Options:
    """The options that were given, or the defaults; `others` are the arguments that are none of ours.

    Raises:
        InvalidValueError: they are something else, or a setting stands among the others.
    """
    for name, _ in settings_of(kind):
        if name in others:
            raise InvalidValueError(f"{who}: {name} belongs in options; write options={kind.__name__}({name}=...)")
    if options is None:
        return kind()
    if type(options) is not kind:
        raise InvalidValueError(f"{who}: options is {options!r}; expected {kind.__name__}(...)")
    return options


def section_settings() -> dict[str, Setting]:
    """The options of Airflow's section, in the order in which they are shown."""
    host, job = dict(settings_of(HostSettings)), dict(settings_of(JobSettings))
    arguments = {name: each for name, each in job.items() if Where.JOB in each.where}
    found = {"exchange": host["exchange"]} | arguments | job | host
    return {name: each for name, each in found.items() if Where.SECTION in each.where}


def parse_bytes(name: str, value: object) -> int:
    """A size: an integer of bytes, or text such as ``"256MB"`` or ``"1 GiB"`` (powers of 1024).

    Raises:
        InvalidValueError: it is neither, or below 1.
    """
    size: int | None = Setting("", SIZE, "", ()).read(name, value)
    if size is None:
        raise InvalidValueError(f"{name} is {value!r}; expected {SIZE.expected}")
    return size


def _read_fields(settings: JobOptions | HostSettings | VertexOptions, *, defaults: bool = False) -> None:
    """Make values of the texts that were given, and of the defaults of what was not."""
    for name, each in settings_of(type(settings)):
        value = getattr(settings, name)
        if value is None:
            value = (defaults and each.default) or each.empty()
        object.__setattr__(settings, name, each.read(name, value))
