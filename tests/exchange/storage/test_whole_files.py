from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.exchange.errors import (
    DamagedFileError,
    ExchangeUnreachableError,
    IncompatibleFileError,
    MissingFileError,
)
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import (
    check_writable,
    decode_json,
    encode_json,
    read_bytes,
    read_json,
    write_atomic,
    write_json,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
payloads = st.dictionaries(
    st.text(max_size=10).filter(lambda key: key not in {"version", "checksum"}), json_values, max_size=5
)


def test_a_file_is_read_back_as_written_and_replaced_whole(root: ExchangePath) -> None:
    path = root / "a" / "b.pb"
    write_atomic(path, b"first")
    write_atomic(path, b"second")
    assert read_bytes(path) == b"second"


def test_no_temporary_file_stays_behind(tmp_path: Path) -> None:
    write_atomic(tmp_path / "x" / "a", b"1")
    assert [entry.name for entry in (tmp_path / "x").iterdir()] == ["a"]


def test_a_failed_write_leaves_the_old_content_and_says_where(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()  # a folder cannot be replaced by a file
    with pytest.raises(ExchangeUnreachableError, match=rf"{tmp_path}/a: cannot be written .*check that the folder"):
        write_atomic(tmp_path / "a", b"1")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_missing_file_is_named(root: ExchangePath) -> None:
    with pytest.raises(MissingFileError, match=r"none\.json: no such file; clear the task") as caught:
        read_json(root / "none.json")
    assert caught.value.path == str(locate(root / "none.json"))


def test_a_file_below_a_file_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(MissingFileError, match="no such file"):
        read_json(tmp_path / "a" / "b.json")


def test_a_folder_is_not_read_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(ExchangeUnreachableError, match=r"cannot be read .*check that it is a readable file"):
        read_json(tmp_path)


@given(payloads)
def test_json_comes_back_equal(payload: dict[str, object]) -> None:
    assert decode_json(encode_json(payload, version=3), where="x", version=3) == payload


@given(payloads, st.data())
def test_any_truncation_and_any_changed_byte_is_noticed(payload: dict[str, object], data: st.DataObject) -> None:
    whole = encode_json(payload)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DamagedFileError, match=r"the file is truncated or was not written by airflow_abs"):
        decode_json(whole[:cut], where="x")
    flipped = bytearray(whole)
    flipped[cut] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedFileError):
        decode_json(bytes(flipped), where="x")


def test_the_file_is_plain_compact_json_with_version_first() -> None:
    data = encode_json({"a": [1, 2]})
    assert json.loads(data) == {"version": 1, "a": [1, 2], "checksum": json.loads(data)["checksum"]}
    assert data.startswith(b'{"version":1,"a":[1,2],"checksum":"')


def test_json_of_somebody_else_is_refused(root: ExchangePath) -> None:
    write_atomic(root / "x.json", b'{"version": 1}')
    with pytest.raises(DamagedFileError, match="14 bytes that do not end in a checksum"):
        read_json(root / "x.json")


def test_altered_json_is_refused(root: ExchangePath) -> None:
    write_atomic(root / "x.json", encode_json({"rows": 1}).replace(b"1}", b"2}").replace(b'"rows":1', b'"rows":2'))
    with pytest.raises(DamagedFileError, match="does not match its checksum; it was altered"):
        read_json(root / "x.json")


def test_another_format_version_is_refused(root: ExchangePath) -> None:
    write_json(root / "x.json", {}, version=2)
    with pytest.raises(IncompatibleFileError, match=r"format version 2, expected 1; run the same airflow_abs version"):
        read_json(root / "x.json")


def test_the_keys_of_the_envelope_are_reserved() -> None:
    with pytest.raises(ValueError, match=r"payload keys \['checksum'\] are reserved"):
        encode_json({"checksum": 1})


def test_a_writable_root_passes_and_keeps_nothing_of_the_probe(root: ExchangePath) -> None:
    check_writable(root)
    location = locate(root)
    assert location.fs.find(location.path) == []


def test_a_root_below_a_file_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ExchangeUnreachableError, match=r"exchange '.*/file/x': Airflow cannot write a file there") as c:
        check_writable(tmp_path / "file" / "x")
    assert "NotADirectoryError" in str(c.value)
    assert "check the path, its rights and the connection's credentials" in str(c.value)


def test_a_store_that_gives_back_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_abs.exchange.storage.whole_files.read_bytes", lambda path: b"other")
    with pytest.raises(ExchangeUnreachableError, match="a probe file of 64 bytes came back as 5 other bytes"):
        check_writable(tmp_path)


def test_errors_survive_pickling_with_their_path() -> None:
    error = pickle.loads(pickle.dumps(DamagedFileError("message", path="/a")))  # noqa: S301
    assert isinstance(error, DamagedFileError)
    assert (str(error), error.path) == ("message", "/a")
