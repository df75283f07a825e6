"""A run's files become a table's, by the statements that its catalog has; none of them is atomic with another.

    mark 'begun'  ->  files into the run's folder  ->  the table's, by mode  ->  mark 'done'

The mark is a property of the table: the state, which rows of the run, and whose they are. So the next try, or
repeats it a day later, finds out how far it came. What is repeated in between changes nothing: files have the same
names, and a location is set to where it is.

Nothing locks others out between a look and a change. So what they could lose is looked at once more after the change,
and a commit that finds changes of others in between says so. Of two runs that overwrite at once, at least one does:
each marks itself 'placed' after its change and before it looks whether it is still there, and looks for the other's
mark after it. Rows that others insert while the table shows another run's folder for a moment are looked for in there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from airflow_abs.core.wording import format_count
from airflow_abs.exchange.errors import CommitConflictError, SupersededError, TargetBusyError
from airflow_abs.exchange.storage.locations import ExchangePath, Location, locate
from airflow_abs.exchange.storage.uris import with_authority
from airflow_abs.tables.catalog.description import TableDescription, describe, shown_columns
from airflow_abs.tables.catalog.locations import locate_partitions
from airflow_abs.tables.catalog.marks import BEGUN, DONE, PLACED, REPLACING, Mark, forgettable, name_of, read_marks
from airflow_abs.tables.catalog.partitions import Partition, as_written, folder_of, list_values
from airflow_abs.tables.catalog.run_folder import HIDDEN, RunFile, RunFolder, is_there, name_files
from airflow_abs.tables.catalog.statements import (
    SparkCatalog,
    StatementError,
    StoredFile,
    partition_clause,
    quote_table,
    refused,
    string_literal,
)
from airflow_abs.tables.catalog.target import identity_of
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.publishing.run_publication import prefix_of, short_name
from airflow_abs.tables.sink import Published, RunFiles

if TYPE_CHECKING:
    from airflow_abs.exchange.publish.target_table import TargetTable

Values = tuple[str | None, ...]
_OURS = "airflow-abs"
_TRIES = 20


@dataclass(frozen=True, slots=True)
class _Head:
    """The table as it is now: where its partitions are that this run writes, and the files in them."""

    found: TableDescription
    locations: Mapping[Values, Partition]
    files: Sequence[StoredFile]

    @property
    def marks(self) -> dict[str, Mark | None]:
        return read_marks(self.found.table_properties)


@dataclass(slots=True)
class CatalogPublication:
    """One run's publication to one table.

    Args:
        target: as planned.
        run: its files.
        catalog: the job's Spark.
        open_path: opens a path of the table's storage.
        on_step: told every step that is done; what it raises ends the publication there, as a kill would.
    """

    target: TargetTable
    run: RunFiles
    catalog: SparkCatalog
    open_path: Callable[[str], ExchangePath]
    on_step: Callable[[str], None] = lambda step: None
    _identities: set[str] = field(default_factory=set)
    """Under which the table remembers this run."""

    def publish(self) -> Published:
        """Publish, or find that it is published.

        Raises:
            SupersededError: a later plan of the run publishes, or has published.
            CommitConflictError: others changed what this run is about to overwrite.
            TargetBusyError: others alter the table all the time.
            TableError: the table is another one by now, or Spark refuses a statement.
            ExchangeError: a staged file is gone or damaged.
        """
        files = name_files(self.target, self.run.files, f"{self._prefix}{self._digest}")
        head = self._head(files)
        marks = self._own_marks(head.found)
        if marks and all(mark.is_done(self._digest) for mark in marks.values()):
            return Published(changed=False, details=self._details(head))
        if not files and not marks and self.target.mode != "overwrite":
            return Published(changed=False, details=self._details(head))
        replacing = any(each.has_other_rows(self._digest) for each in marks.values())
        self._mark(REPLACING if replacing else BEGUN)
        self.on_step("begun")
        root = _root(head.found)
        where = f"{root}/{HIDDEN}/{self._short}-{self._digest}"
        place = RunFolder(self._open(where), self._columns)
        place.fill(self.target, files)
        self.on_step("copied")
        self._own_marks(describe(self._name, self.catalog, self._quoted))
        replaced = self._replaced(head)
        if self.target.mode == "append":
            if replacing:
                self._discard_drafts(root)
                self._take_out()
            self._append(head, place, files)
            self._check_order()
            if not self._is_in_table(files):
                raise self._moved_elsewhere()
        else:
            passing = self._list_passing(head.found, head, files)  # before it is seen that the table looks elsewhere
            before = self._check_unseen(head, files)
            self._overwrite(head, where, {file.values for file in files})
            if replacing:
                self._take_out()
            self._mark(PLACED)
            self._check_alone(before, passing, where, files)
        self._mark(DONE)
        self.on_step("done")
        self._forget(head, marks.keys() - {self._mark_in(DONE).key})
        return Published(changed=True, replaced=replaced, details=self._details(self._head(files)))

    def _own_marks(self, found: TableDescription) -> dict[str, Mark]:
        """What the table remembers of this run, by their keys.

        Raises:
            SupersededError: a later plan of it publishes, or has published.
            TableError: it cannot be read.
        """
        known = {short_name(each) for each in self.run.publisher.identities}
        own = {}
        for key, mark in read_marks(found.table_properties).items():
            if mark is not None and self.run.publisher.owns(mark.identity):
                own[key] = mark
                self._identities.add(mark.identity)
            elif mark is None and key.partition(".")[0] in known:
                name = name_of(key)
                raise TableError(
                    f"table {self._name}: its property {name}, which says how far this run came with publishing, "
                    f"reads {found.table_properties[name]!r}; expected a state, a digest, two numbers and an identity. "
                    "Spark hides properties that look like secrets (spark.redaction.regex), or it was changed; "
                    f"nothing was published. See that the run's rows are not in the table, remove the property (ALTER "
                    f"TABLE ... UNSET TBLPROPERTIES ('{name}')), and run commit again"
                )
        newest = max((mark.generation for mark in own.values()), default=0)
        self.run.publisher.check_order(f"table {self._name}", newest)
        return own

    def _head(self, files: Sequence[RunFile]) -> _Head:
        found = describe(self._name, self.catalog, self._quoted)
        if identity_of(found) != self.target.uuid:
            self._refuse_changed("was recreated")
        if found.partition_columns != self.target.not_in_files:
            self._refuse_changed("is partitioned in another way")
        try:
            columns = shown_columns(self._name, self.catalog.schema(self._quoted))
        except StatementError as error:
            raise refused(self._name, f"the columns of {self._quoted}", error) from error
        if {"type": "struct", "fields": columns} != json.loads(self.target.schema):
            self._refuse_changed("has other columns")
        locations: dict[Values, Partition] = {(): Partition((), found.location)}
        if self._columns:
            locations = self._locate({file.values for file in files})
        listed = self._list(locations.values()) if self.target.mode != "append" else []
        return _Head(found, locations, listed)

    def _locate(self, wanted: set[Values] | None = None) -> dict[Values, Partition]:
        """The partitions that the catalog has, those of these values or all, by values as Spark writes them."""
        known = list_values(self._name, self.catalog, self._quoted, self._columns)
        types = {each: kind.kind for each, kind in zip(self._columns, self.target.partitions, strict=True)}
        written = as_written(self._name, self.catalog, types, known)
        if len(set(written)) < len(written):
            raise TableError(
                f"table {self._name}: two of its partitions have the same values in other words, such as 7 and 07; "
                "drop one of them from the catalog (ALTER TABLE ... DROP PARTITION)"
            )
        if wanted is not None and self.target.mode != "overwrite":
            chosen = [number for number, values in enumerate(written) if values in wanted]
            known, written = [known[number] for number in chosen], [written[number] for number in chosen]
        found = locate_partitions(self._name, self.catalog, self._quoted, types, known)
        return dict(zip(written, found, strict=True))

    def _list(self, places: Iterable[Partition]) -> list[StoredFile]:
        wanted = {place.location.rstrip("/") for place in places}
        there = [folder for folder in sorted(wanted) if self._exists(folder)]
        if not there:
            return []
        try:
            return [file for file in self.catalog.list_files(there) if file.folder in wanted]
        except StatementError as error:
            raise refused(self._name, "a listing of its folders", error) from error

    def _append(self, head: _Head, place: RunFolder, files: Sequence[RunFile]) -> None:
        """Into the folders that the partitions have; new ones get those that Spark itself would give them."""
        new = sorted({file.values for file in files} - head.locations.keys(), key=str)
        root = head.found.location.rstrip("/")
        locations = {values: partition.location for values, partition in head.locations.items()}
        locations |= {values: f"{root}/{folder_of(self._columns, values)}" for values in new}
        try:
            place.move(files, {values: self._open(location) for values, location in locations.items()})
        except FileNotFoundError as error:  # a later plan has discarded them, or another try put them elsewhere
            self._check_order()
            raise self._moved_elsewhere() from error
        self.on_step("placed")
        if new:
            self._alter(f"ADD IF NOT EXISTS {' '.join(self._located(values, locations[values]) for values in new)}")
            self.on_step("partitions added")

    def _overwrite(self, head: _Head, where: str, written: set[Values]) -> None:
        """Send readers to the run's folder: of a table without partitions at once, else of one after the other."""
        if not self._columns:
            self._alter(f"SET LOCATION {string_literal(where)}")
            self.on_step("located")
            self._check_left(head, where)
            return
        for values in sorted(written, key=str):
            folder = f"{where}/{folder_of(self._columns, values)}"
            if values in head.locations:
                clause = self._clause(head.locations[values].values)
                self._alter(f"{clause} SET LOCATION {string_literal(folder)}")
            else:
                self._alter(f"ADD IF NOT EXISTS {self._located(values, folder)}")
            self.on_step("located")
        self._check_left(head, where)
        others = sorted(head.locations.keys() - written, key=str)
        if self.target.mode == "overwrite" and others:
            clauses = (self._clause(head.locations[values].values) for values in others)
            self._alter(f"DROP IF EXISTS {', '.join(clauses)}")
            self.on_step("others dropped")

    def _check_unseen(self, head: _Head, files: Sequence[RunFile]) -> _Head:
        """The table as it is right before it is overwritten."""
        now = self._head(files)
        mine = {each for each in (*head.files, *now.files) if self._is_ours(each.path.rpartition("/")[2])}
        added = set(now.files) - set(head.files) - mine
        if added or now.locations != head.locations:
            raise CommitConflictError(
                f"table {self.target.table}: others changed it while this run was about to overwrite, with "
                f"{format_count(len(added), 'file')} that would be lost unseen; nothing was published. Run commit "
                "again to overwrite them, and let only one run at a time overwrite it"
            )
        return now

    def _check_left(self, head: _Head, where: str) -> None:
        """Files that others added between the last look and the change, to where the table's rows were until then."""
        places = [place for place in head.locations.values() if not place.location.startswith(where)]
        left = sorted(
            file.path
            for file in set(self._list(places)) - set(head.files)
            if not self._is_ours(file.path.rpartition("/")[2])
        )
        if left:
            raise self._left_out(left)

    def _left_out(self, left: Sequence[str]) -> CommitConflictError:
        return CommitConflictError(
            f"table {self.target.table}: others added {format_count(len(left), 'file')} to it at the very moment "
            f"when this run overwrote it. The table holds the run's rows now, and not those of {left[0]} (nothing "
            "is deleted). Insert them again if they should stay, then run commit again; and let only one run "
            "at a time write to it"
        )

    def _list_passing(self, found: TableDescription, before: _Head, files: Sequence[RunFile]) -> set[StoredFile]:
        """What has come from others into the folders of runs, and of earlier plans of this one, that publish now: the
        table may look there for a moment between two looks of this one, and a writer then adds rows that it never
        sees."""
        parts = {folder_of(self._columns, file.values) for file in files} if self._columns else {""}
        places: list[Partition] = []
        names = [prefix_of(self.run.identity)]
        for key, mark in read_marks(found.table_properties).items():
            if mark is None or (self.run.publisher.owns(mark.identity) and mark.digest == self._digest):
                continue
            if mark.state != DONE or before.marks.get(key) != mark:
                folder = f"{_root(found)}/{HIDDEN}/{short_name(mark.identity)}-{mark.digest}"
                places += [Partition((), f"{folder}/{part}".rstrip("/")) for part in parts]
                names.append(prefix_of(mark.identity))
        known = {place.location for place in before.locations.values()}
        listed = self._list(place for place in places if place.location not in known)
        return {file for file in listed if not file.path.rpartition("/")[2].startswith(tuple(names))}

    def _check_alone(self, before: _Head, passing: set[StoredFile], where: str, files: Sequence[RunFile]) -> None:
        """Whether what this run has put in the place of others is still there, and no other run did so meanwhile."""
        now = describe(self._name, self.catalog, self._quoted)
        if hidden := sorted(file.path for file in self._list_passing(now, before, files) - passing):
            raise self._left_out(hidden)
        other = next(
            (
                mark.identity
                for key, mark in read_marks(now.table_properties).items()
                if mark and mark.state in (PLACED, DONE) and not self.run.publisher.owns(mark.identity)
                if before.marks.get(key) != mark
            ),
            "",
        )
        if other:
            raise CommitConflictError(
                f"table {self.target.table}: the run {other} published to it at the very moment when this run "
                "overwrote it, and its rows may be hidden. Decide which rows should stay, clear the commit of the "
                "run that should publish last; and let only one run at a time write to it"
            )
        if not (self._columns or now.location.startswith(where)) or not self._is_in_table(files):
            raise CommitConflictError(
                f"table {self.target.table}: others changed where its files are at the very moment when this run "
                "overwrote it, and it does not hold this run's rows. Run commit again if it should hold this run's "
                "rows; and "
                "let only one run at a time write to it"
            )

    def _is_in_table(self, files: Sequence[RunFile]) -> bool:
        """Whether the table shows all of them, wherever it looks by now."""
        places = self._head(files).locations
        return all(
            file.values in places and is_there(self._open(places[file.values].location) / file.name, file.staged.bytes)
            for file in files
        )

    def _moved_elsewhere(self) -> TargetBusyError:
        return TargetBusyError(
            f"table {self.target.table}: others changed where its files are while this run appended to it, and it does "
            "not hold this run's rows. Run commit again when no other writer overwrites it"
        )

    def _check_order(self) -> None:
        """A later plan of this run may have looked for files of ours just before they were there."""
        try:
            self._own_marks(describe(self._name, self.catalog, self._quoted))
        except SupersededError:
            self._take_out(of_today=True)
            raise

    def _discard_drafts(self, root: str) -> None:
        """What earlier plans of this run copied and have not put into the table, so that none does any more, not even
        one that is killed before it sees that it is too late."""
        place = self._open(f"{root}/{HIDDEN}")
        for path in place.fs.find(place.path):
            name = path.rpartition("/")[2]
            if self._is_ours(name) and not name.startswith(f"{self._prefix}{self._digest}"):
                _remove(Location(place.fs, path))
        self.on_step("drafts discarded")

    def _take_out(self, of_today: bool = False) -> None:
        """Files of this run with other rows, which it published before it was cleared, wherever they are; or those of
        today."""
        found = describe(self._name, self.catalog, self._quoted)
        places = self._locate().values() if self._columns else [Partition((), found.location)]
        for file in self._list(places):
            name = file.path.rpartition("/")[2]
            if self._is_ours(name) and name.startswith(f"{self._prefix}{self._digest}") is of_today:
                _remove(self._open(file.path))
        self.on_step("taken out")

    def _replaced(self, head: _Head) -> tuple[str, ...]:
        """Other runs whose files are in what is overwritten, as far as the table remembers them."""
        names = (file.path.rpartition("/")[2] for file in head.files)
        shorts = {name.split("-")[2] for name in names if name.startswith(f"{_OURS}-") and not self._is_ours(name)}
        return tuple(
            sorted({mark.identity for mark in head.marks.values() if mark and short_name(mark.identity) in shorts})
        )

    def _forget(self, head: _Head, former: Iterable[str]) -> None:
        """Also what stands under former names of this run, whose files are gone."""
        if old := sorted({*forgettable(head.marks), *map(name_of, former)}):
            self._alter(f"UNSET TBLPROPERTIES IF EXISTS ({', '.join(string_literal(each) for each in old)})")

    def _mark(self, state: str) -> None:
        """Until it is there: of two that alter a table at once the catalog forgets one."""
        mark = self._mark_in(state)
        name, value = name_of(mark.key), str(mark)
        for _ in range(_TRIES):
            self._alter(f"SET TBLPROPERTIES ({string_literal(name)} = {string_literal(value)})")
            found = describe(self._name, self.catalog, self._quoted)
            self._own_marks(found)
            if found.table_properties.get(name) == value:
                return
        raise TargetBusyError(
            f"table {self.target.table}: others keep altering it, and the catalog lost {_TRIES} times that this run "
            "publishes to it. Run commit again when fewer of them write"
        )

    def _mark_in(self, state: str) -> Mark:
        publisher = self.run.publisher
        return Mark(state, self._digest, int(time.time()), publisher.identity, publisher.generation)

    def _alter(self, change: str) -> None:
        statement = f"ALTER TABLE {self._quoted} {change}"
        try:
            self.catalog.run(statement)
        except StatementError as error:
            raise refused(self._name, statement, error) from error

    def _located(self, values: Values, where: str) -> str:
        return f"{self._clause(values)} LOCATION {string_literal(where)}"

    def _clause(self, values: Values) -> str:
        return partition_clause(dict(zip(self._columns, values, strict=True)))

    def _open(self, path: str) -> Location:
        """A folder or file that Hadoop writes so, by the connection of the table's storage."""
        scheme, separator, rest = with_authority(path).partition("://")
        connection = f"{self.target.conn_id}@" if self.target.conn_id and scheme != "file" else ""
        return locate(self.open_path(f"{scheme}{separator}{connection}{rest}"))

    def _exists(self, folder: str) -> bool:
        place = self._open(folder)
        return not place.is_local or place.local.exists()

    def _details(self, head: _Head) -> dict[str, str]:
        return {"location": head.found.location}

    def _refuse_changed(self, what: str) -> NoReturn:
        raise TableError(
            f"table {self.target.table}: {what} since this run was planned, and the files were written for what it "
            "was; nothing was published. Clear the task plan and everything after it"
        )

    @property
    def _name(self) -> str:
        return str(self.target.details["name"])

    @property
    def _quoted(self) -> str:
        return quote_table(self._name)

    @property
    def _columns(self) -> tuple[str, ...]:
        return self.target.not_in_files

    @property
    def _short(self) -> str:
        return short_name(self.run.identity)

    @property
    def _digest(self) -> str:
        return self.run.digest[:12]

    @property
    def _prefix(self) -> str:
        """Of the names of all files that this run makes."""
        return prefix_of(self.run.identity)

    def _is_ours(self, name: str) -> bool:
        """Whether a file is of an earlier publication of this run."""
        known = (*self.run.publisher.identities, *self._identities)
        return name.startswith(tuple(map(prefix_of, known)))


def _root(found: TableDescription) -> str:
    """The table's own folder, whichever run's folder it shows."""
    return found.location.partition(f"/{HIDDEN}/")[0].rstrip("/")


def _remove(file: Location) -> None:
    with suppress(FileNotFoundError):  # by another try
        file.fs.rm_file(file.path)
