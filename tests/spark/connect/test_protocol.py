"""The protocol is loaded lightly, and is one with what pyspark itself uses. Each test needs a fresh Python."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from airflow_abs.spark.connect.protocol import (
    PysparkMissingError,
    check_one_release,
    client_version,
    protos,
    pyspark_folder,
)


def run_fresh(code: str) -> str:
    """What a new Python prints, in which every warning is an error.

    A file, not `-c`: pyspark takes a main module without one for a doctest, and asks for the whole of Spark.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(code)
        done = subprocess.run(
            [sys.executable, "-W", "error", script], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_loading_the_protocol_loads_neither_pandas_nor_arrow_nor_pyspark() -> None:
    code = """
import sys
from airflow_abs.spark.connect.protocol import protos
proto = protos()
proto.ExecutePlanRequest(session_id="s"), proto.SparkConnectServiceStub
heavy = ("pandas", "pyarrow", "numpy", "pyspark", "py4j")
print(sorted(name for name in sys.modules if name.split(".")[0] in heavy))
"""
    assert run_fresh(code) == "[]"


def test_importing_our_modules_loads_neither_grpc_nor_pyspark() -> None:
    code = """
import sys
import airflow_abs.spark.connect.execute, airflow_abs.spark.connect.operations
import airflow_abs.spark.server.embedded, airflow_abs.spark.server.embedded_keeper
import airflow_abs.spark.connect.session, airflow_abs.spark.connect.endpoint, airflow_abs.spark.connect.classification
heavy = ("grpc", "google", "pandas", "pyarrow", "pyspark")
print(sorted(name for name in sys.modules if name.split(".")[0] in heavy))
"""
    assert run_fresh(code) == "[]"


def test_loading_the_protocol_takes_a_fraction_of_what_pyspark_takes() -> None:
    code = """
import time, grpc, google.protobuf.message
from airflow_abs.spark.connect.protocol import protos
started = time.process_time(); protos(); light = time.process_time() - started
started = time.process_time(); import pyspark.sql.connect.proto; heavy = time.process_time() - started
print(light < heavy / 2)
"""
    assert run_fresh(code) == "True"


def test_a_real_import_afterwards_works_and_meets_the_same_modules() -> None:
    code = """
import copy, pickle
from airflow_abs.spark.connect.protocol import protos
proto = protos()
import pyspark.sql.connect.proto as real
from pyspark.sql.connect.proto import base_pb2
import pyspark.sql.connect.client.core as client
import pyspark
print(real is proto, client.pb2 is proto, pyspark.sql.connect.proto is proto)
print(base_pb2.ExecutePlanRequest is proto.ExecutePlanRequest, protos() is proto)
request = proto.ExecutePlanRequest(session_id="s")
print(pickle.loads(pickle.dumps(request)) == request, copy.deepcopy(request) == request)
"""
    assert run_fresh(code).split() == ["True"] * 7


def test_what_a_real_import_brought_before_is_used() -> None:
    code = """
import pyspark.sql.connect.proto as real
from airflow_abs.spark.connect.protocol import protos
print(protos() is real)
"""
    assert run_fresh(code) == "True"


def test_pyspark_itself_may_be_there_without_its_connect_part() -> None:
    code = """
import pyspark
from airflow_abs.spark.connect.protocol import protos
proto = protos()
import pyspark.sql.connect.proto as real
print(real is proto)
"""
    assert run_fresh(code) == "True"


def test_threads_that_load_it_at_once_get_one_module() -> None:
    code = """
import threading
from airflow_abs.spark.connect.protocol import protos
found = []
threads = [threading.Thread(target=lambda: found.append(protos())) for _ in range(8)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
print(len(found), len(set(map(id, found))), found[0].ExecutePlanRequest.__name__)
"""
    assert run_fresh(code) == "8 1 ExecutePlanRequest"


def test_without_pyspark_the_message_says_what_to_install() -> None:
    code = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "pyspark" else find(name, *more)
from airflow_abs.spark.connect.protocol import PysparkMissingError, protos
try:
    protos()
except PysparkMissingError as error:
    print(error)
"""
    assert run_fresh(code) == "airflow_abs found no pyspark in this Python; install pyspark-client"


@pytest.mark.parametrize(("client", "is_mixed"), [("4.2.0", True), ("4.1.1", False)])
def test_two_releases_of_pyspark_over_each_other_are_refused(
    client: str, is_mixed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, version in (("pyspark", "4.1.1"), ("pyspark_client", client)):
        about = tmp_path / f"{name}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(tmp_path)
    if not is_mixed:
        check_one_release()
        return
    with pytest.raises(PysparkMissingError) as caught:
        check_one_release()
    assert str(caught.value) == (
        "this Python has pyspark 4.1.1 and pyspark-client 4.2.0, which overwrite each other's files; expected "
        "one release: pip install --force-reinstall --no-deps pyspark==4.1.1 pyspark-client==4.1.1"
    )


def test_the_version_is_read_without_importing() -> None:
    import pyspark

    assert client_version() == pyspark.__version__
    assert str(pyspark_folder()) == pyspark.__path__[0]


def test_the_error_is_an_import_error() -> None:
    with pytest.raises(ImportError):
        raise PysparkMissingError("no pyspark")
    assert protos() is protos()


def test_a_plan_of_many_steps_is_read_back() -> None:
    """A vertex of 400 chained calls: protobuf stops at some 50 by default, and only `run` would notice."""
    proto = protos()
    relation = proto.Relation(sql=proto.SQL(query="SELECT 1 AS a"))
    for _ in range(400):
        relation = proto.Relation(filter=proto.Filter(input=relation))
    data = relation.SerializeToString(deterministic=True)
    again = proto.Relation()
    again.ParseFromString(data)
    assert again.SerializeToString(deterministic=True) == data
