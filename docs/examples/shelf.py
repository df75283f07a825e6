"""A kind of table of one's own: a folder with Parquet files and a log of versions."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from airflow_abs.exchange.errors import CommitConflictError
from airflow_abs.tables import Pin, PinnedTable, Published, SourceFile, TableError, TargetTable


@dataclass(frozen=True)
class ShelfTable:
    path: str
    mode: str = "append"

    def __post_init__(self):
        if self.mode not in ("append", "overwrite"):
            raise ValueError(f"ShelfTable({self.path!r}): mode is {self.mode!r}; expected append or overwrite")

    def to_json(self):
        return asdict(self)

    @property
    def asset_uri(self):
        return None if "{{" in self.path else f"x-shelf://{self.path}"

    def pin(self, access):
        number, version = newest(self.path)
        files = tuple(SourceFile(f"{self.path}/{file['name']}", file["bytes"]) for file in version["files"])
        size = sum(file.bytes for file in files)
        found = PinnedTable(
            table=self.path,
            version=f"version {number}",
            format="parquet",
            file_schema=version["schema"],
            files=len(files),
            bytes=size,
            all_files=len(files),
            all_bytes=size,
        )
        return Pin(version["schema"], found, files)

    def target(self, access):
        schema = newest(self.path)[1]["schema"]
        return TargetTable(table=self.path, conn_id="", mode=self.mode, uuid=self.path, schema=schema)

    @staticmethod
    def publish(target, run, access, on_step):
        number, version = newest(target.table)
        if is_done(target, run, version):  # an earlier try did it
            return Published(changed=False, details={"version": number})
        copied = [copy(file, target.table, run.identity) for file in run.files]
        on_step("copied")
        while True:
            before = [name for name in version["runs"] if run.publisher.owns(name)]
            kept = [file for file in version["files"] if target.mode == "append" and file["run"] not in before]
            runs = {name: told for name, told in version["runs"].items() if name not in before}
            runs[run.identity] = [run.digest, run.publisher.generation]
            if create(target.table, number + 1, version | {"files": kept + copied, "runs": runs}):
                on_step("committed")
                gone = {file["run"] for file in version["files"] if file not in kept} - {*before, None}
                return Published(True, tuple(sorted(gone)), {"version": number + 1})
            number, version = newest(target.table)
            if is_done(target, run, version):  # this run is tried by two at once
                return Published(changed=False, details={"version": number})
            if target.mode == "overwrite":
                raise CommitConflictError(f"table {target.table}: version {number} came while this run overwrote")


def is_done(target, run, version):
    """Whether these rows of the run are there; an error if those of a later plan are."""
    told = [told for name, told in version["runs"].items() if run.publisher.owns(name)]
    run.publisher.check_order(f"table {target.table}", max((generation for _, generation in told), default=0))
    return run.digest in [digest for digest, _ in told]


def newest(path):
    """Number and content of the last version."""
    names = sorted(file.name for file in Path(path, "versions").glob("*.json"))
    if not names:
        raise TableError(f"table {path}: there is no such shelf; create one")
    return int(names[-1].partition(".")[0]), json.loads(Path(path, "versions", names[-1]).read_text())


def create(path, number, version):
    """Whether this was the one who created the version: only one can, and readers never see half of it."""
    draft = Path(path, f"{uuid.uuid4().hex}.draft")
    draft.write_text(json.dumps(version))
    try:
        os.link(draft, Path(path, "versions", f"{number:08d}.json"))
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def copy(staged, path, run):
    """Bring one file under a name of its own."""
    name = f"{uuid.uuid4().hex}.parquet"
    with staged.source.open("rb") as source, Path(path, name).open("wb") as file:
        shutil.copyfileobj(source, file)
        if file.tell() != staged.bytes:
            raise TableError(f"table {path}: {staged.source} has {file.tell()} bytes, expected {staged.bytes}")
    return {"name": name, "bytes": staged.bytes, "run": run}
