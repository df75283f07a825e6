"""Records are read by any number of threads: a triggerer's, and those that read many files at once."""

from __future__ import annotations

import subprocess
import sys

# While msgspec describes a part of the record to itself for the first thread, a second thread reads such a record, too.
# In a process of its own, which would not survive half a description.
TWO_READERS = """
import threading
from dataclasses import dataclass
from msgspec import _utils
from airflow_abs.exchange.records.reading import as_record

@dataclass(frozen=True)
class Part:
    size: int

@dataclass(frozen=True)
class Record:
    name: str
    parts: tuple[Part, ...]

def read():
    found.append(as_record({"name": "orders", "parts": [{"size": 1}]}, Record, where="record.json"))

def describe(kind):
    if kind is Part and not second.ident:
        second.start()
        second.join(0.5)  # as far as it comes
    return annotations_of(kind)

found, second, annotations_of = [], threading.Thread(target=read), _utils.get_class_annotations
_utils.get_class_annotations = describe
read()
second.join(60)
print(found == [Record("orders", (Part(1),))] * 2, second.ident is not None)
"""


def test_a_kind_of_record_may_be_read_for_the_first_time_by_two_threads_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", TWO_READERS], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True\n", "")
