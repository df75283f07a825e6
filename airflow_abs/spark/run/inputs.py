"""What a subtask needs of other subtasks' results, and what of it is lost, or was made of rows that do not count."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import unquote

from airflow_abs.core.failover import Subtask
from airflow_abs.exchange.errors import DamagedFileError, MissingFileError, StaleManifestError, StoredFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.decisions import read_decision_and_digest
from airflow_abs.exchange.records.manifest import Manifest, ResultFile, read_manifest
from airflow_abs.exchange.records.manifest_index import ManifestIndex, read_index
from airflow_abs.exchange.records.run_records import FEW, RunRecords
from airflow_abs.exchange.results.lost_files import GONE, find_lost_files
from airflow_abs.exchange.results.outdated import read_outdated
from airflow_abs.exchange.results.renewal import has_renewed
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.spark.run.subtask_spec import Inputs, SubtaskSpec

_READ_THREADS = 16


@dataclass(frozen=True, slots=True)
class LostResults:
    """What is lost of one subtask's results. Without a manifest all of it is.

    `files` says by path what is wrong; `bytes` is the size that they had. `outdated_by` is the subtask whose rows it
    has to reread, if nothing is gone.
    """

    region: str
    index: int
    decision: str
    manifest: Manifest | None
    results: tuple[str, ...]
    files: Mapping[str, str]
    bytes: int
    outdated_by: Subtask | None = None

    def __str__(self) -> str:
        return f"{self.region}[{self.index}]"

    def describe(self) -> str:
        """``orders[3]: 2 files, 12.5 MiB: subtask-3/.../part-0.parquet is gone, ...``."""
        first = next(iter(self.files.items()), None)
        what = f"{first[0]} {first[1]}" if first else "nothing"
        return f"{self}: {self._count_files()}: {what}" + (", ..." if len(self.files) > 1 else "")

    def is_released(self, folder: JobFolder) -> bool:
        """Whether the run had succeeded, so that `release` deleted the files, and was cleared afterwards."""
        slice_of_it = locate(folder.slice_path(self.region, self.index))
        return set(self.files.values()) == {GONE} and not slice_of_it.fs.exists(slice_of_it.path)

    def explain(self, folder: JobFolder) -> str:
        """The line of the log before it is recomputed."""
        if self.outdated_by is not None:
            producer, index = self.outdated_by
            return f"outdated: {self}: it has read rows of {producer}[{index}] that were replaced since"
        if self.is_released(folder):
            return f"released: {self}: {self._count_files()}, deleted when the run succeeded; recomputing"
        return f"lost: {self.describe()}"

    def _count_files(self) -> str:
        from airflow_abs.core.wording import format_bytes, format_count

        return f"{format_count(len(self.files), 'file')}, {format_bytes(self.bytes)}"


@dataclass(slots=True)
class InputCheck:
    """Looks at everything that one subtask reads from the exchange.

    `suspects` are paths that Spark failed to read although they looked whole from outside. `index` is read once.
    """

    spec: SubtaskSpec
    suspects: set[str] = field(default_factory=set)
    index: ManifestIndex | None = None

    def look(self) -> tuple[Inputs, list[LostResults]]:
        """The manifests that are needed, and what is lost; the first is complete only if the second is empty.

        Raises:
            StaleManifestError: a producer was decided again, ran under another decision, or put its rows into other
                files.
            ExchangeUnreachableError: the storage does not answer.
        """
        inputs: dict[str, Sequence[Manifest]] = {}
        lost: list[LostResults] = []
        for region in self.spec.reads.producers:
            found = self._read_manifests(region)
            inputs[region] = [manifest for manifest in found.values() if isinstance(manifest, Manifest)]
            lost += [
                self._without_manifest(region, index, error)
                for index, error in found.items()
                if isinstance(error, StoredFileError)
            ]
        self._check_placements(inputs)
        lost += self._lost_files(inputs)
        known = {(each.region, each.index) for each in lost}
        return inputs, lost + [each for each in self._outdated(inputs) if (each.region, each.index) not in known]

    def is_still(self, inputs: Inputs) -> bool:
        """Whether what was read counts, as far as that can change; those who read it next look again."""
        if not self.may_change or not has_renewed(self.spec.folder):
            return True
        now, lost = self.look()
        return not lost and now == inputs

    @property
    def may_change(self) -> bool:
        """Whether it reads rows that are others when they are recomputed."""
        return not set(self.spec.plan.unrepeatable).isdisjoint(self.spec.reads.producers)

    def _outdated(self, inputs: Inputs) -> list[LostResults]:
        """Of what is needed, the subtasks that have read other rows than those that count now."""
        if not self.may_change or not has_renewed(self.spec.folder):
            return []
        found = read_outdated(RunRecords(self.spec.folder), *inputs)
        return [
            outdated_results(each, found[each.region, each.index])
            for manifests in inputs.values()
            for each in manifests
            if (each.region, each.index) in found
        ]

    def suspect(self, paths: Collection[str]) -> bool:
        """Note the files of the exchange that an error names; False if it names none."""
        folder = locate(self.spec.folder.path).path.strip("/") + "/"
        found = {name for path in paths if (name := _below(folder, path))}
        self.suspects |= found
        return bool(found)

    def _read_manifests(self, region: str) -> dict[int, Manifest | StoredFileError]:
        """Of all its subtasks; of those that wrote this one's files, if only rescale inputs come from there."""
        entries = [entry for entry in self.spec.region.inputs if entry.region == region]
        indices = sorted({index for entry in entries for index in self.spec.producers(entry)})
        decision = self.spec.reads.producer_decisions.get(region)
        gathered, folder = self._gathered(region, indices), self.spec.folder.located()

        def read(index: int) -> Manifest | StoredFileError:
            if (known := gathered.get(index)) is not None and known.decision == decision:
                return known
            try:
                return read_manifest(folder, region, index, decision=decision)
            except (MissingFileError, DamagedFileError) as error:
                return error
            except StaleManifestError:
                self._check_decided(region)
                raise

        with ThreadPoolExecutor(min(_READ_THREADS, len(indices)) or 1, thread_name_prefix="read-manifest") as pool:
            return dict(zip(indices, pool.map(read, indices), strict=True))

    def _check_decided(self, region: str) -> None:
        """Raise StaleManifestError if `region` was decided again after this subtask was decided."""
        spec, folder = self.spec, self.spec.folder
        decided, counts = spec.reads.producer_decisions.get(region), read_decision_and_digest(folder, region)[1]
        if decided != counts:
            raise StaleManifestError(
                f"{spec.region.name}[{spec.index}]: was decided under decision {decided} of {region}, and {counts} "
                f"counts now; clear {spec.region.name}.decide and everything after it",
                path=str(locate(folder.decision_path(region))),
            )

    def _gathered(self, region: str, indices: Sequence[int]) -> Mapping[int, Manifest]:
        """Of these the manifests that `decide` has gathered and that are still the ones."""
        folder = self.spec.folder
        if locate(folder.path).is_local or len(indices) <= FEW:
            return {}
        if self.index is None:
            self.index = read_index(folder, self.spec.region.name)
        return self.index.current(folder, region, indices)

    def _check_placements(self, inputs: Inputs) -> None:
        """Files of rescale inputs are read by their numbers, and rows of a share by their places: they must be those
        that were decided about."""
        spec = self.spec
        self._check_cut(inputs)
        for entry in spec.region.inputs:
            for each in spec.files(entry, inputs) if entry.is_rescale else ():
                index, result = each.manifest.index, each.manifest.results[entry.result]
                decided = spec.reads.rescaled[entry.name].decided(index)
                found = len(result.files), result.checksum
                if found != decided and entry.region not in spec.plan.unrepeatable:
                    raise StaleManifestError(
                        f"{spec.region.name}[{spec.index}]: reads files of {entry.region}[{index}] one by one, but "
                        f"{entry.region}[{index}] ran again since {spec.region.name} was decided and left other files: "
                        f"expected {decided[0]} with checksum {decided[1]}, found {found[0]} with checksum {found[1]}; "
                        f"clear {spec.region.name}.decide and everything after it",
                        path=str(locate(spec.folder.manifest_path(entry.region, index))),
                    )

    def _check_cut(self, inputs: Inputs) -> None:
        spec, part, decided = self.spec, self.spec.reads.hot_part, self.spec.reads.cut_attempt
        if part is None or part.share is None:
            return
        (entry,) = (each for each in spec.region.inputs if each.name == part.input)
        for manifest in inputs[entry.region]:
            if manifest.index == part.share.producer and manifest.attempt != decided:
                where = f"{entry.region}[{manifest.index}]"
                raise StaleManifestError(
                    f"{spec.region.name}[{spec.index}]: reads {part.share} of {entry.region} by the places of rows in "
                    f"files, but {where} ran again since {spec.region.name} was decided: expected attempt {decided}, "
                    f"found {manifest.attempt}; clear {spec.region.name}.decide and everything after it",
                    path=str(locate(spec.folder.manifest_path(entry.region, manifest.index))),
                )

    def _without_manifest(self, region: str, index: int, error: StoredFileError) -> LostResults:
        decision = self.spec.reads.producer_decisions[region]
        return LostResults(region, index, decision, None, (), {error.path: "has no manifest that can be read"}, 0)

    def _lost_files(self, inputs: Inputs) -> list[LostResults]:
        wanted = {file.path: (manifest, result, file) for manifest, result, file in _read(self.spec, inputs)}
        problems = find_lost_files(self.spec.folder, [file for _, _, file in wanted.values()])
        problems |= dict.fromkeys(self.suspects & wanted.keys() - problems.keys(), "cannot be read by Spark")
        by_subtask: dict[tuple[str, int], list[str]] = {}
        for path in problems:
            manifest = wanted[path][0]
            by_subtask.setdefault((manifest.region, manifest.index), []).append(path)
        return [
            LostResults(
                region=region,
                index=index,
                decision=wanted[paths[0]][0].decision,
                manifest=wanted[paths[0]][0],
                results=tuple(dict.fromkeys(wanted[path][1] for path in paths)),
                files={path: problems[path] for path in paths},
                bytes=sum(wanted[path][2].bytes for path in paths),
            )
            for (region, index), paths in sorted(by_subtask.items())
        ]


def outdated_results(manifest: Manifest, by: Subtask) -> LostResults:
    """All that a subtask has written, if it has to run again because of another one."""
    results = manifest.results
    size = sum(result.bytes for result in results.values())
    return LostResults(manifest.region, manifest.index, manifest.decision, manifest, tuple(results), {}, size, by)


def files_read(spec: SubtaskSpec, inputs: Inputs) -> list[ResultFile]:
    """Every file of the exchange that a subtask reads."""
    return list({file.path: file for _, _, file in _read(spec, inputs)}.values())


def _read(spec: SubtaskSpec, inputs: Inputs) -> Iterator[tuple[Manifest, str, ResultFile]]:
    for entry in spec.region.inputs:
        for each in spec.files(entry, inputs):
            for file in each.files:
                yield each.manifest, entry.result, file


def still_whole(folder: JobFolder, files: Sequence[ResultFile]) -> bool:
    """Whether files that were just read can have been read whole.

    Spark silently reads a file that was cut to nothing. A file that is missing now was read before, or the read would
    have failed. On an object store the same request also tells whether a file was altered meanwhile.
    """
    footers = not locate(folder.path).is_local
    return all(problem == GONE for problem in find_lost_files(folder, files, footers=footers).values())


def _below(folder: str, path: str) -> str | None:
    """The path as a manifest names it, if it is below the job's folder; Spark's messages may escape it."""
    for text in (path, unquote(path)):
        _, found, rest = text.partition(folder)
        if found:
            return rest
    return None
