"""The folder layout of the exchange, and nothing but paths.

    <root>/<dag_id>/_history/<job>.json                 the outcome of the job's last runs
    <root>/<dag_id>/<run_id>/<job>/
        plan.json
        server.json                                     the run's own Spark server, if it has one
        _server-<key>/                                  what that needed to start and says of itself
        _landed-<vertex>/<key>/part-*                   rows of a table, copied by one try of plan
        <region>/step-<i>.pb
        <region>/source-<vertex>.json                   files of a table, or unread ones, that a vertex reads
        <region>/decision.json
        <region>/inputs.json                            the manifests of its producers, gathered, on object stores
        <region>/subtask-<k>/slice.json                 what subtask k reads, as its part of the decision
        <region>/subtask-<k>/manifest.json
        <region>/subtask-<k>/try-<t>.json               the outcome of Airflow's try t
        <region>/subtask-<k>/recovery-<n>.json          who recomputes, or recomputed, lost files of it as attempt n
        <region>/subtask-<k>/attempt-<n>/<result>/part-*
        <region>/subtask-<k>/attempt-<n>/piece-<p>/<result>/part-*     of an attempt that was split
    <root>/<dag_id>/_published/<job>/<vertex>.json      how many rows the last runs published, if that is expected of it
    <root>/<dag_id>/_positions/<job>/<vertex>/<number>  what its runs have read of an incremental source

Ids come from users (`scheduled__2026-01-01T00:00:00+00:00`, `../x`, an emoji), so every one is escaped.
"""

from __future__ import annotations

import hashlib
import re
import string
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath

from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.uris import AZURE_SCHEMES, account_of, for_hadoop

MAX_NAME_BYTES = 200
_KEPT_BYTES = 160
_EMPTY = "~"
_SHORTENED = "~~"
_PLAIN = frozenset(string.ascii_letters.encode() + string.digits.encode() + b".-_")
_HIDDEN_FIRST = frozenset(b"._")  # Spark does not read files and folders whose name starts with these
_TAKEN = frozenset({"plan.json", "renewed.json", "server.json", "probe"})  # by what else lies in a job's folder
_LANDED = "_landed-"
_ESCAPED_BYTE = re.compile(r"~([0-9A-F]{2})")


@lru_cache(maxsize=1024)
def escape(name: str) -> str:
    """A file name for any id: ASCII letters, digits, `.`, `-`, `_` and `~XX`; 1 to 200 bytes; never hidden.

    Different ids give different names (above 200 bytes up to a collision of SHA-256's first 128 bits). No result
    holds a separator, a `=` (Spark would see a partition column), a `:` (Hadoop would see a scheme) or a glob
    character. `""` gives `"~"`.
    """
    data = name.encode("utf-8", "surrogatepass")
    if not data:
        return _EMPTY
    escaped = "".join(
        chr(byte) if byte in _PLAIN and not (position == 0 and byte in _HIDDEN_FIRST) else f"~{byte:02X}"
        for position, byte in enumerate(data)
    )
    if len(escaped) <= MAX_NAME_BYTES:
        return escaped
    return f"{escaped[:_KEPT_BYTES]}{_SHORTENED}{hashlib.sha256(data).hexdigest()[:32]}"


def unescape(name: str) -> str:
    """The id behind an escaped name.

    Raises:
        ValueError: the name was shortened (the id cannot be had back), or is no result of `escape`.
    """
    if name == _EMPTY:
        return ""
    if _SHORTENED in name:
        raise ValueError(f"{name!r} is a shortened name: its id was over {MAX_NAME_BYTES} bytes and is not in it")
    data = bytearray()
    for part in re.split(r"(~[0-9A-F]{2})", name):
        if match := _ESCAPED_BYTE.fullmatch(part):
            data.append(int(match[1], 16))
        else:
            data.extend(part.encode("utf-8", "surrogatepass"))
    unescaped = data.decode("utf-8", "surrogatepass")
    if escape(unescaped) != name:
        raise ValueError(f"{name!r} is not an escaped name")
    return unescaped


def is_hidden(name: str) -> bool:
    """Whether Spark passes over a file or folder of this name when it lists the folder that holds it."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def is_landed(path: str) -> bool:
    """Whether a file is a copy that `plan` made of a table's rows, see `JobFolder.landed_path`."""
    return any(part.startswith(_LANDED) for part in PurePosixPath(path).parts[:-1])


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The folder of one job (task group) in one DAG run; ids are given as Airflow has them, unescaped."""

    root: ExchangePath
    dag_id: str
    run_id: str
    job: str

    def located(self) -> JobFolder:
        """The same folder for many small reads: joining a `UPath` takes longer than reading the file behind it. Not for
        `uri_for_spark`, which needs the path as it was written."""
        return replace(self, root=locate(self.root))

    @property
    def path(self) -> ExchangePath:
        return self.root / f"{escape(self.dag_id)}/{escape(self.run_id)}/{escape(self.job)}"

    @property
    def history_path(self) -> ExchangePath:
        """How the job's last runs ended. No id is escaped to a name that begins with `_`."""
        return self.root / f"{escape(self.dag_id)}/_history/{escape(self.job)}.json"

    @property
    def plan_path(self) -> ExchangePath:
        return self.path / "plan.json"

    @property
    def server_path(self) -> ExchangePath:
        """The record of the run's own Spark server."""
        return self.path / "server.json"

    @property
    def renewed_path(self) -> ExchangePath:
        """There since a subtask of the run has got other rows than its readers may have read."""
        return self.path / "renewed.json"

    def py_file_path(self, digest: str) -> ExchangePath:
        """A file of the job's `py_files`, by the SHA-256 of its content."""
        return self.path / f"py-{digest}"

    def start_path(self, key: str) -> ExchangePath:
        """The folder of one start of that server."""
        return self.path / f"_server-{escape(key)}"

    def region_path(self, region: str) -> ExchangePath:
        name = escape(region)
        return self.path / (f"~{ord(name[0]):02X}{name[1:]}" if name in _TAKEN else name)

    def step_path(self, region: str, step: int) -> ExchangePath:
        """The compiled plan template of step `step` (0, 1, ...) of a region."""
        return self.region_path(region) / f"step-{_count(step, 'step', 0)}.pb"

    def pinned_path(self, region: str, vertex: str) -> ExchangePath:
        """The files that `plan` has fixed for a vertex: of a table, or those that nobody has read yet."""
        return self.region_path(region) / f"source-{escape(vertex)}.json"

    def landed_path(self, vertex: str, key: str) -> ExchangePath:
        """The folder of rows that one try of `plan` copied from a table. No region is escaped to such a name."""
        return self.path / f"{_LANDED}{escape(vertex)}" / escape(key)

    def decision_path(self, region: str) -> ExchangePath:
        return self.region_path(region) / "decision.json"

    def publishing_path(self, region: str) -> ExchangePath:
        """There since the run began to publish what the region has for sinks."""
        return self.region_path(region) / "publishing.json"

    def hot_key_path(self, region: str) -> ExchangePath:
        """The most frequent key of its hottest subpartition."""
        return self.region_path(region) / "hot-key.json"

    def waiting_path(self, region: str) -> ExchangePath:
        """What its operations want and the cluster does not have."""
        return self.region_path(region) / "waiting.json"

    def index_path(self, region: str) -> ExchangePath:
        """The manifests of its producers in one file."""
        return self.region_path(region) / "inputs.json"

    def subtask_path(self, region: str, index: int) -> ExchangePath:
        return self.region_path(region) / f"subtask-{_count(index, 'index', 0)}"

    def slice_path(self, region: str, index: int) -> ExchangePath:
        """What the subtask reads, as `decide` chose it."""
        return self.subtask_path(region, index) / "slice.json"

    def manifest_path(self, region: str, index: int) -> ExchangePath:
        return self.subtask_path(region, index) / "manifest.json"

    def attempt_path(self, region: str, index: int, attempt: int) -> ExchangePath:
        return self.subtask_path(region, index) / f"attempt-{_count(attempt, 'attempt', 0)}"

    def result_path(self, region: str, index: int, attempt: int, result: str, piece: int | None = None) -> ExchangePath:
        """The folder that Spark writes one result of one attempt (or of one piece of it) to."""
        folder = self.attempt_path(region, index, attempt)
        if piece is not None:
            folder = folder / f"piece-{_count(piece, 'piece', 0)}"
        return folder / escape(result)

    def written_path(self, region: str, index: int, attempt: int) -> ExchangePath:
        """Which of its results an attempt has written so far."""
        return self.attempt_path(region, index, attempt) / "written.json"

    def try_path(self, region: str, index: int, number: int) -> ExchangePath:
        """The record of one of Airflow's tries, 1, 2, ..."""
        return self.subtask_path(region, index) / f"try-{_count(number, 'try', 1)}.json"

    def recovery_path(self, region: str, index: int, attempt: int) -> ExchangePath:
        """Who recomputes lost files of the subtask as this attempt."""
        return self.subtask_path(region, index) / f"recovery-{_count(attempt, 'attempt', 0)}.json"

    def published_path(self, vertex: str) -> ExchangePath:
        """How many rows the last runs published of a vertex's sink. It is the job's, beside the folders of its runs;
        no run id is escaped to such a name."""
        return self.root / f"{escape(self.dag_id)}/_published/{escape(self.job)}/{escape(vertex)}.json"

    def position_path(self, vertex: str) -> ExchangePath:
        """The log of what the job's runs have read of a vertex' incremental source. It is the job's, as above."""
        return self.positions_path / escape(self.job) / escape(vertex)

    @property
    def positions_path(self) -> ExchangePath:
        """The folder of all such logs of the DAG: ``<job>/<vertex>/<number>``."""
        return self.root / f"{escape(self.dag_id)}/_positions"

    def relative(self, path: ExchangePath) -> str:
        """A path below this folder as manifests name it; a ValueError for any other path."""
        return locate(path).relative_to(locate(self.path))

    def file_path(self, relative: str) -> ExchangePath:
        """The file that a manifest names.

        Raises:
            DamagedFileError: the name is absolute or leads out of this folder.
        """
        path = self.path
        for part in relative_parts(relative):
            path = path / part
        return path


def relative_parts(relative: str) -> tuple[str, ...]:
    """The parts of a manifest's relative file name, checked: none is `..` and the name is not absolute."""
    parts = PurePosixPath(relative).parts
    if not parts or ".." in parts or parts[0].startswith("/") or "\\" in relative or "\0" in relative:
        raise DamagedFileError(
            f"file name {relative!r}: expected a path below the job folder; it is absolute, empty or leads out of it. "
            "The manifest was not written by airflow_abs: clear the subtask that wrote it",
            path=relative,
        )
    return parts


def uri_for_spark(path: ExchangePath) -> str:
    """The path as Spark's `load`/`save` take it.

    Hadoop's `Path(String)` splits off scheme and authority and takes the rest literally: it does *not* decode `%20`.
    So local paths become `file:` + `//` + the raw absolute path (not `Path.as_uri()`, whose escapes Hadoop would look
    for on disk), `s3:` becomes `s3a:`, and other paths keep their scheme, less the connection id that Airflow writes
    before an `@`.
    A reader also takes `{}[]*?\\` as a glob unless its option `__globPaths__` is `false`; a writer never does.
    """
    location = locate(path)
    if location.is_local:
        return f"file://{location.path}"
    text = str(path)
    conn_id = getattr(path, "conn_id", None)
    plain = text.replace(f"://{conn_id}@", "://", 1) if conn_id else text
    scheme, separator, rest = plain.partition("://")
    container = rest.partition("/")[0]
    if separator and scheme in AZURE_SCHEMES and (account := account_of(conn_id, container)):
        plain = f"{scheme}://{container}@{account}{rest[len(container) :]}"
    return for_hadoop(plain)


def _count(value: int, name: str, minimum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"{name}: expected an int of at least {minimum}, found {value!r}")
    return value
