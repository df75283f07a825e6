from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_abs.exchange.errors import DamagedFileError, ExchangeUnreachableError, MissingFileError
from airflow_abs.exchange.results.parquet_bytes import MeasuredFile, _rounded, measure_file, measure_files
from airflow_abs.exchange.results.parquet_footer import read_footer
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.ranged_file import RangedFile
from airflow_abs.exchange.storage.whole_files import write_atomic

P = 16


def skewed_table(rows: int, seed: int = 7) -> pa.Table:
    """Rows sorted by `__subpartition`: half of them in subpartition 5; in 9 the texts are 40 times wider."""
    random_state = np.random.default_rng(seed)
    subpartition = np.sort(np.where(random_state.random(rows) < 0.5, 5, random_state.integers(0, P, rows)))
    texts = [random_state.bytes(200 if part == 9 else 5).hex() for part in subpartition]
    return pa.table(
        {
            "id": pa.array(random_state.integers(0, 1 << 40, rows)),
            "text": pa.array(texts),
            "few": pa.array([f"value {number}" for number in random_state.integers(0, 20, rows)]),
            "maybe": pa.array([None if value < 0.3 else value for value in random_state.random(rows)]),
            "__subpartition": pa.array(subpartition, pa.int32()),
        }
    )


def parquet_bytes(table: pa.Table, *, page_index: bool = True, row_group_size: int = 20_000) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        compression="lz4",
        data_page_version="2.0",
        data_page_size=16 * 1024,
        write_batch_size=64,  # pyarrow looks at the size of a page only after each batch
        row_group_size=row_group_size,
        write_page_index=page_index,
        use_dictionary=["few", "__subpartition"],
    )
    return sink.getvalue()


def column_bytes(data: bytes) -> int:
    metadata = pq.read_metadata(io.BytesIO(data))
    return sum(
        metadata.row_group(group).column(column).total_compressed_size
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    )


def bytes_alone(table: pa.Table, subpartition: int) -> int:
    """The truth: the subpartition's rows in a file of their own."""
    rows = table.filter(pa.compute.equal(table["__subpartition"], subpartition))
    return column_bytes(parquet_bytes(rows)) if rows.num_rows else 0


def curve(sizes: list[int]) -> np.ndarray:
    """The cumulative share, which is what a cut by bytes uses."""
    return np.cumsum(sizes) / sum(sizes)


def put(root: ExchangePath, data: bytes, name: str = "part-0.parquet") -> ExchangePath:
    write_atomic(root / name, data)
    return root / name


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return skewed_table(60_000)


def test_the_cumulative_curve_is_within_1_percent_of_each_subpartition_written_alone(
    table: pa.Table, root: ExchangePath
) -> None:
    data = parquet_bytes(table)
    measured = measure_file(put(root, data), P)
    truth = [bytes_alone(table, subpartition) for subpartition in range(P)]
    assert max(truth) > 5 * sum(truth) / P  # one subpartition is much larger than the mean
    assert np.abs(curve(list(measured.subpartition_bytes)) - curve(truth)).max() < 0.01
    assert sum(measured.subpartition_bytes) == column_bytes(data)
    assert measured.bytes == len(data)
    assert measured.first == 0


def test_rows_of_each_subpartition_are_exact(table: pa.Table, tmp_path: Path) -> None:
    measured = measure_file(put(tmp_path, parquet_bytes(table)), P)
    assert measured.rows == 60_000
    assert list(measured.subpartition_rows) == np.bincount(table["__subpartition"].to_numpy(), minlength=P).tolist()


def test_a_part_of_the_subpartitions_starts_at_the_first_that_has_rows(table: pa.Table, tmp_path: Path) -> None:
    some = table.filter(pa.compute.is_in(table["__subpartition"], pa.array([3, 4, 7], pa.int32())))
    measured = measure_file(put(tmp_path, parquet_bytes(some)), P)
    assert measured.first == 3
    assert [size > 0 for size in measured.subpartition_bytes] == [True, True, False, False, True]
    assert [rows > 0 for rows in measured.subpartition_rows] == [True, True, False, False, True]


def test_without_a_page_index_a_row_group_is_shared_by_rows(table: pa.Table, tmp_path: Path) -> None:
    data = parquet_bytes(table, page_index=False, row_group_size=60_000)
    measured = measure_file(put(tmp_path, data), P)
    total = column_bytes(data)
    assert sum(measured.subpartition_bytes) == total
    for size, rows in zip(measured.subpartition_bytes, measured.subpartition_rows, strict=True):
        assert size == pytest.approx(total * rows / 60_000, abs=2 + P)


def test_small_row_groups_without_a_page_index_come_close_too(table: pa.Table, tmp_path: Path) -> None:
    data = parquet_bytes(table, page_index=False, row_group_size=200)
    measured = measure_file(put(tmp_path, data), P)
    truth = [bytes_alone(table, subpartition) for subpartition in range(P)]
    assert np.abs(curve(list(measured.subpartition_bytes)) - curve(truth)).max() < 0.03


def test_unsorted_rows_are_shared_by_rows(table: pa.Table, tmp_path: Path) -> None:
    shuffled = table.take(np.random.default_rng(1).permutation(table.num_rows))
    data = parquet_bytes(shuffled, row_group_size=60_000)
    measured = measure_file(put(tmp_path, data), P)
    assert sum(measured.subpartition_bytes) == column_bytes(data)
    assert measured.subpartition_bytes[9] == pytest.approx(
        column_bytes(data) * measured.subpartition_rows[9] / 60_000, abs=2 + P
    )


def test_nested_columns_count_too(tmp_path: Path) -> None:
    table = pa.table(
        {
            "list": pa.array([[number] * (number % 7) for number in range(5_000)]),
            "struct": pa.array([{"a": number, "b": str(number)} for number in range(5_000)]),
            "__subpartition": pa.array(np.arange(5_000) * P // 5_000, pa.int32()),
        }
    )
    data = parquet_bytes(table)
    measured = measure_file(put(tmp_path, data), P)
    assert sum(measured.subpartition_bytes) == column_bytes(data)
    assert len(measured.subpartition_bytes) == P


def test_one_subpartition_needs_no_column(tmp_path: Path, table: pa.Table) -> None:
    data = parquet_bytes(table.drop_columns("__subpartition"))
    assert measure_file(put(tmp_path, data), 1) == MeasuredFile(len(data), 60_000, 0, (column_bytes(data),), (60_000,))


@pytest.mark.parametrize("subpartitions", [1, P])
def test_a_file_without_rows_has_no_sizes(tmp_path: Path, table: pa.Table, subpartitions: int) -> None:
    data = parquet_bytes(table.slice(0, 0))
    assert measure_file(put(tmp_path, data), subpartitions) == MeasuredFile(len(data), 0, 0, (), ())


def test_files_are_measured_in_the_order_given(root: ExchangePath, table: pa.Table) -> None:
    paths = [put(root, parquet_bytes(table.slice(0, rows)), f"part-{rows}") for rows in (500, 3, 40, 1, 700)]
    assert [measured.rows for measured in measure_files(paths, P, threads=3)] == [500, 3, 40, 1, 700]


def test_no_files_measure_as_nothing() -> None:
    assert measure_files([], P) == []


@pytest.mark.parametrize(("subpartitions", "threads"), [(0, 1), (1, 0)])
def test_numbers_below_1_are_refused(subpartitions: int, threads: int) -> None:
    with pytest.raises(ValueError, match="expected at least 1 subpartition and 1 thread"):
        measure_files([], subpartitions, threads=threads)


def test_footer_and_page_index_come_with_one_request(tmp_path: Path, table: pa.Table) -> None:
    data = parquet_bytes(table)
    file = RangedFile(locate(put(tmp_path, data)), len(data))
    read_footer(file)
    assert file.requests == 1  # the page index of 2 MB of data lies within the tail that is read first


def test_a_missing_file_is_named(root: ExchangePath) -> None:
    with pytest.raises(MissingFileError, match=r"none\.parquet: no such file; clear the subtask") as caught:
        measure_file(root / "none.parquet", P)
    assert caught.value.path.endswith("none.parquet")


@pytest.mark.parametrize("keep", [0, 3, 11, 1_000, -1, -9, -200])
def test_a_truncated_file_is_named(tmp_path: Path, table: pa.Table, keep: int) -> None:
    path = put(tmp_path, parquet_bytes(table.slice(0, 2_000))[:keep])
    with pytest.raises(DamagedFileError, match=r"part-0\.parquet: not a whole Parquet file") as caught:
        measure_file(path, P)
    assert caught.value.path == str(path)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_flipped_byte_in_the_footer_never_gives_another_error(data: st.DataObject) -> None:
    whole = parquet_bytes(skewed_table(500))
    footer = int.from_bytes(whole[-8:-4], "little")
    flipped = bytearray(whole)
    flipped[data.draw(st.integers(len(whole) - 8 - footer, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    from upath import UPath

    path = UPath("memory://flipped/part-0.parquet")
    write_atomic(path, bytes(flipped))
    try:
        measured = measure_file(path, P)
    except DamagedFileError:
        return
    assert all(size >= 0 for size in measured.subpartition_bytes)


def test_a_file_without_the_column_is_refused_with_the_columns_there_are(tmp_path: Path) -> None:
    path = put(tmp_path, parquet_bytes_of({"a": [1], "few": ["x"]}))
    with pytest.raises(DamagedFileError, match="it has no column '__subpartition'; found a, few"):
        measure_file(path, P)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([0, P], pa.int32()), r"holds 0\.\.16, expected values in \[0, 16\)"),
        (pa.array([-1, 0], pa.int32()), r"holds -1\.\.0, expected values in \[0, 16\)"),
        (pa.array([None, 0], pa.int32()), "holds 1 NULLs, expected none"),
        (pa.array(["0", "1"]), "is of type string, expected a signed integer"),
    ],
)
def test_a_column_that_holds_no_subpartitions_is_refused(tmp_path: Path, values: pa.Array, message: str) -> None:
    path = put(tmp_path, parquet_bytes_of({"few": ["x", "y"], "__subpartition": values}))
    with pytest.raises(DamagedFileError, match=message):
        measure_file(path, P)


def parquet_bytes_of(columns: dict[str, object]) -> bytes:
    return parquet_bytes(pa.table(columns))


def test_a_folder_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises((ExchangeUnreachableError, DamagedFileError), match=str(tmp_path)):
        measure_file(tmp_path, P)


@given(
    st.lists(st.tuples(st.floats(0, 1e9), st.integers(0, 1000)), min_size=1, max_size=50).filter(
        lambda pairs: any(rows for _, rows in pairs)
    ),
    st.integers(0, 10**12),
)
def test_rounding_keeps_the_sum_and_never_hides_a_subpartition(pairs: list[tuple[float, int]], total: int) -> None:
    rows = np.array([count for _, count in pairs])
    shares = np.array([share if count else 0.0 for share, count in pairs])
    sizes = _rounded(shares, rows, total)
    present = int((rows > 0).sum())
    assert ((sizes > 0) == (rows > 0)).all()
    if shares.sum() > 0:
        assert sizes.sum() == max(total, present)
