from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.exchange.errors import DamagedFileError, MissingFileError, StaleManifestError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import (
    Manifest,
    ResultFile,
    ResultManifest,
    bytes_by_subpartition,
    files_for_range,
    read_manifest,
    read_manifests,
    write_manifest,
)
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import read_bytes, write_json

ORDERS = ResultManifest(
    format="parquet",
    schema='{"type":"struct","fields":[]}',
    subpartitions=8,
    files=(
        ResultFile("orders/subtask-0/attempt-1/r/part-0.parquet", 700, 30, first=0, subpartition_bytes=(100, 0, 500)),
        ResultFile("orders/subtask-0/attempt-1/r/part-1.parquet", 90, 3, first=6, subpartition_bytes=(40, 50)),
        ResultFile("orders/subtask-0/attempt-1/r/part-2.parquet", 10, 0, first=0, subpartition_bytes=()),
    ),
)


def manifest(index: int = 0, **changes: object) -> Manifest:
    whole = Manifest("orders", index, 1, "d1", 2.5, {"orders.hash-1a": ORDERS})
    return replace(whole, **changes)  # type: ignore[arg-type]


def test_a_manifest_comes_back_equal(job: JobFolder) -> None:
    write_manifest(job, manifest())
    assert read_manifest(job, "orders", 0) == manifest()


def test_a_later_attempt_replaces_the_manifest_of_an_earlier(job: JobFolder) -> None:
    write_manifest(job, manifest(attempt=1))
    write_manifest(job, manifest(attempt=2))
    assert read_manifest(job, "orders", 0).attempt == 2


def test_manifests_are_read_in_index_order(job: JobFolder) -> None:
    for index in reversed(range(20)):
        write_manifest(job, manifest(index))
    assert [read.index for read in read_manifests(job, "orders", 20)] == list(range(20))


def test_manifests_above_the_count_are_not_looked_at(job: JobFolder) -> None:
    write_manifest(job, manifest(0))
    write_manifest(job, manifest(1, decision="an earlier, wider one"))
    assert [read.index for read in read_manifests(job, "orders", 1, decision="d1")] == [0]


def test_a_missing_manifest_names_the_subtask_to_clear(job: JobFolder) -> None:
    write_manifest(job, manifest(0))
    with pytest.raises(MissingFileError, match=r"orders\[1\]: no manifest at .*clear orders\[1\]"):
        read_manifests(job, "orders", 2)


def test_a_manifest_of_another_decision_is_stale(job: JobFolder) -> None:
    write_manifest(job, manifest())
    with pytest.raises(StaleManifestError, match=r"orders\[0\] under decision 'd1', expected .* decision 'd2'"):
        read_manifest(job, "orders", 0, decision="d2")


def test_all_stale_manifests_of_a_region_are_named(job: JobFolder) -> None:
    for index in range(6):
        write_manifest(job, manifest(index, decision="d2" if index == 1 else "d1"))
    where = locate(job.manifest_path("orders", 0))
    with pytest.raises(StaleManifestError) as caught:
        read_manifests(job, "orders", 6, decision="d2")
    assert caught.value.path == str(where)
    assert str(caught.value) == (
        f"{where}: is of orders[0] under decision 'd1', expected orders[0] under decision 'd2'; clear orders.run, map "
        "index 0, 2-5"
    )


def test_a_manifest_of_another_subtask_is_stale(job: JobFolder) -> None:
    write_json(job.manifest_path("orders", 1), manifest(0).to_json())
    with pytest.raises(StaleManifestError, match=r"is of orders\[0\] under decision 'd1', expected orders\[1\]"):
        read_manifest(job, "orders", 1)


def test_a_count_below_1_is_refused(job: JobFolder) -> None:
    with pytest.raises(ValueError, match="region 'orders': expected a count of at least 1, found 0"):
        read_manifests(job, "orders", 0)


def test_a_manifest_is_compact(job: JobFolder) -> None:
    sizes = tuple(range(1_000_000, 1_000_128))
    wide = replace(ORDERS, subpartitions=128, files=(ResultFile("p" * 100, 1 << 30, 10**6, 0, sizes),) * 4)
    write_manifest(job, manifest(results={"orders.hash-1a": wide}))
    # 4 files of 128 sizes of 7 digits and a comma, 240 bytes around each, 320 around all
    assert len(read_bytes(job.manifest_path("orders", 0))) < 4 * (128 * 8 + 240) + 340


@pytest.mark.parametrize(
    ("way", "value", "message"),
    [
        (("region",), 5, r"manifest: Expected `str`, got `int` - at `\$.region`; the record is damaged, or another"),
        (("index",), -1, r"Expected `int` >= 0 - at `\$.index`"),
        (("attempt",), True, r"Expected `int`, got `bool` - at `\$.attempt`"),
        (("seconds",), "1", r"Expected `float`, got `str` - at `\$.seconds`"),
        (("results",), [], r"Expected `object`, got `array` - at `\$.results`"),
        (("results", "r"), 1, r"Expected `object`, got `int` - at `\$.results\[...\]`"),
        (("results", "r", "subpartitions"), 0, r"Expected `int` >= 1 - at `\$.results\[...\].subpartitions`"),
        (("results", "r", "files"), {}, r"Expected `array`, got `object` - at `\$.results\[...\].files`"),
        (("results", "r", "files", 0, "path"), "../x", r"manifest: file name '../x': expected a path below the job"),
        (("results", "r", "files", 0, "rows"), 1.5, r"Expected `int`, got `float` - at `\$.*.files\[0\].rows`"),
        (("results", "r", "files", 0, "subpartition_bytes"), [-1], r"Expected `int` >= 0 - at .*bytes\[0\]`"),
        (
            ("results", "r", "files", 0, "first"),
            7,
            r"of result r has sizes of .* \[7, 10\), expected some of \[0, 8\)",
        ),
    ],
)
def test_each_wrong_field_is_named(way: tuple[str | int, ...], value: object, message: str) -> None:
    payload = json.loads(json.dumps(manifest(results={"r": ORDERS}).to_json()))
    node = payload
    for key in way[:-1]:
        node = node[key]
    node[way[-1]] = value
    with pytest.raises(DamagedFileError, match=message):
        Manifest.from_json(payload)


def test_a_manifest_survives_the_way_through_values_too() -> None:
    assert Manifest.from_json(manifest().to_json()) == manifest()


def test_a_missing_field_is_named() -> None:
    with pytest.raises(DamagedFileError, match="m: Object missing required field `region`; the record is damaged"):
        Manifest.from_json({}, where="m")


def test_a_field_that_a_newer_version_adds_is_passed_over() -> None:
    assert Manifest.from_json({**manifest().to_json(), "colour": "red"}) == manifest()


def test_a_result_that_is_not_there_is_named_with_what_is() -> None:
    with pytest.raises(DamagedFileError, match=r"orders\[0\]: its manifest has no result 'r2', only orders.hash"):
        manifest().result("r2")


def test_bytes_add_up_over_files_and_subtasks() -> None:
    assert bytes_by_subpartition(ORDERS) == [100, 0, 500, 0, 0, 0, 40, 50]
    assert bytes_by_subpartition([ORDERS, ORDERS]) == [200, 0, 1000, 0, 0, 0, 80, 100]


def test_results_of_different_subpartition_counts_do_not_add_up() -> None:
    with pytest.raises(ValueError, match=r"expected results of one number of subpartitions, found \[8, 16\]"):
        bytes_by_subpartition([ORDERS, replace(ORDERS, subpartitions=16)])


@pytest.mark.parametrize(
    ("start", "stop", "files"),
    [(0, 1, [0]), (1, 2, []), (1, 3, [0]), (3, 6, []), (2, 7, [0, 1]), (7, 8, [1]), (0, 8, [0, 1])],
)
def test_only_files_with_rows_in_the_range_are_read(start: int, stop: int, files: list[int]) -> None:
    assert files_for_range(ORDERS, IndexRange(start, stop)) == [ORDERS.files[position] for position in files]


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4, unique=True))
def test_ranges_that_cover_all_subpartitions_read_all_bytes_once(cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), 8]
    ranges = [IndexRange(start, stop) for start, stop in itertools.pairwise(bounds)]
    assert sum(file.bytes_in(part) for part in ranges for file in ORDERS.files) == 690


def test_rows_and_bytes_of_a_result_are_those_of_its_files() -> None:
    assert (ORDERS.rows, ORDERS.bytes, manifest().rows) == (33, 800, 33)


def test_the_manifest_is_where_the_layout_says(job: JobFolder) -> None:
    write_manifest(job, manifest())
    location = locate(job.path)
    assert [location.at(path).relative_to(location) for path in location.fs.find(location.path)] == [
        "orders/subtask-0/manifest.json"
    ]
