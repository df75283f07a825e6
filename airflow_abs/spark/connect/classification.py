"""Which kind of error it is: one table over error classes, messages and the chain of causes; no I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_abs.spark.errors import (
    Cause,
    InputLostError,
    OperationCancelledError,
    OperationTakenOverError,
    ResourcesError,
    SparkOperationError,
    SubtaskOutOfMemoryError,
    TransientSparkError,
    UserCodeError,
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """Applies when an error of the chain has a class that starts with `error_class` and a message with `text` in it."""

    kind: type[SparkOperationError]
    error_class: str = ""
    text: str = ""


_HEADER_MISFITS = (
    "CSV header does not conform to the schema",
    "Number of column in CSV header is not equal to number of fields in the schema",
)
# Before Spark 4.2 an exception of a Python function has no error class; this is Java's.
_PYTHON_ERROR = "org.apache.spark.api.python.PythonException"
# The first rule that applies to any error of the chain decides. So what names a cause stands before what wraps one:
# a failed read is a lost input only if it was neither the network nor a record that the user's data got wrong.
_RULES = (
    _Rule(OperationTakenOverError, "INVALID_CURSOR.DISCONNECTED"),
    _Rule(OperationCancelledError, "OPERATION_CANCELED"),
    _Rule(TransientSparkError, "INVALID_HANDLE"),
    _Rule(TransientSparkError, "INVALID_CURSOR"),
    _Rule(TransientSparkError, "SPARK_CONNECT_ILLEGAL_STATE"),
    _Rule(SubtaskOutOfMemoryError, "PYTHON_EXCEPTION", "\nMemoryError"),
    _Rule(UserCodeError, "PYTHON_EXCEPTION"),
    _Rule(SubtaskOutOfMemoryError, _PYTHON_ERROR, "\nMemoryError"),
    _Rule(UserCodeError, _PYTHON_ERROR),
    _Rule(UserCodeError, "USER_RAISED_EXCEPTION"),
    _Rule(SubtaskOutOfMemoryError, "java.lang.OutOfMemoryError"),
    _Rule(SubtaskOutOfMemoryError, "UNABLE_TO_ACQUIRE_MEMORY"),
    _Rule(SubtaskOutOfMemoryError, "org.apache.spark.memory.SparkOutOfMemoryError"),
    _Rule(SubtaskOutOfMemoryError, text="java.lang.OutOfMemoryError"),
    _Rule(SubtaskOutOfMemoryError, text="Java heap space"),
    _Rule(SubtaskOutOfMemoryError, text="GC overhead limit exceeded"),
    _Rule(SubtaskOutOfMemoryError, text="SparkOutOfMemoryError"),
    _Rule(SubtaskOutOfMemoryError, text="Not enough memory to build and broadcast"),
    _Rule(SubtaskOutOfMemoryError, text="for exceeding memory limits"),
    _Rule(SubtaskOutOfMemoryError, text="OOMKilled"),
    _Rule(SubtaskOutOfMemoryError, text="code: 137"),
    _Rule(ResourcesError, text="No space left on device"),
    _Rule(ResourcesError, text="Disk quota exceeded"),
    _Rule(ResourcesError, text="spark.driver.maxResultSize"),
    _Rule(UserCodeError, text="larger than max"),  # a plan or an answer above gRPC's limit: the same again
    _Rule(UserCodeError, "MALFORMED_RECORD_IN_PARSING"),
    *(_Rule(UserCodeError, text=words) for words in _HEADER_MISFITS),
    _Rule(UserCodeError, "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH"),
    _Rule(UserCodeError, "UNSUPPORTED_CALL"),  # whole files that Spark's reader cannot read: no recomputation helps
    _Rule(TransientSparkError, "java.net."),
    _Rule(TransientSparkError, "java.io.FileNotFoundException", "_temporary"),
    _Rule(TransientSparkError, "java.io.FileNotFoundException", "blockmgr-"),
    _Rule(InputLostError, "FAILED_READ_FILE"),
    _Rule(InputLostError, "PATH_NOT_FOUND"),
    _Rule(InputLostError, "java.io.FileNotFoundException"),
    _Rule(TransientSparkError, text="Python worker exited unexpectedly"),
    _Rule(TransientSparkError, text="Python worker failed to connect"),
    _Rule(TransientSparkError, text="ExecutorLostFailure"),
    _Rule(TransientSparkError, text="FetchFailed"),
    _Rule(TransientSparkError, text="SparkContext was shut down"),
    _Rule(TransientSparkError, text="stopped SparkContext"),
    _Rule(TransientSparkError, "INTERNAL_ERROR"),
    _Rule(ResourcesError, "CANNOT_WRITE_STATE_STORE"),
    _Rule(TransientSparkError, "CANNOT_LOAD_STATE_STORE"),
    _Rule(TransientSparkError, "CONCURRENT_STREAM_LOG_UPDATE"),
    _Rule(TransientSparkError, "CONCURRENT_QUERY"),
    _Rule(TransientSparkError, "FAILED_RENAME_TEMP_FILE"),
)
# These say only that something else failed.
_WRAPPERS = frozenset(
    {"TASK_WRITE_FAILED", "STAGE_MATERIALIZATION_MULTIPLE_FAILURES", "FAILED_EXECUTE_UDF", "STREAM_FAILED"}
)

_SPARK_CLASS = re.compile(r"[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*")
_LEADING_CLASS = re.compile(
    r"\s*(?:\([\w.$]+\)\s*)?(?:[\w.$]+(?:Exception|Error):\s*)?\[(" + _SPARK_CLASS.pattern + r")\]"
)
_TRACEBACK_END = re.compile(r"^(?=\S)(?!Traceback)(.+)$", re.MULTILINE)
_READ_FILE = re.compile(r"while reading file (.+?)\.\s*(?:SQLSTATE|$)")
_READ_AS = re.compile(r"record parsing: (.{0,200}).*\.$", re.MULTILINE)
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}\s*$")
_TASK_FAILURE = re.compile(r"most recent failure: [^\n]*?\): (?:[\w.$]+: )?([^\n]+)")


def classify(error_class: str, message: str, causes: Sequence[Cause] = ()) -> type[SparkOperationError]:
    """The kind of an error with this Spark error class (or ""), message and chain of causes.

    What no rule knows is the user's if Spark gave it an error class (there are over a thousand, nearly all on
    queries and data), else transient: the limit of restarts ends it.
    """
    chain = (Cause(error_class, message), *causes)
    for rule in _RULES:
        if any(link.error_class.startswith(rule.error_class) and rule.text in link.message for link in chain):
            return rule.kind
    known = [link.error_class for link in chain if _SPARK_CLASS.fullmatch(link.error_class)]
    if any(name not in _WRAPPERS for name in known):
        return UserCodeError
    return ResourcesError if "TASK_WRITE_FAILED" in known else TransientSparkError


def leading_class(message: str) -> str:
    """ "DIVIDE_BY_ZERO" of "[DIVIDE_BY_ZERO] Division by zero. ...", or ""."""
    found = _LEADING_CLASS.match(message)
    return found.group(1) if found else ""


def lead_with_users_words(message: str, causes: Sequence[Cause] = ()) -> str:
    """The message with what its reader needs in the first line.

    * an exception in a UDF: its last line ("ValueError: bad customer 7"), then the traceback;
    * `raise_error('...')`: the words alone;
    * a file that cannot be read: which one and why, and of a record or a header that does not fit what to do;
    * a failed Spark job: what the task died of, then the whole;
    * everything else stays as it is.
    """
    text = message.strip()
    match leading_class(text):
        case "PYTHON_EXCEPTION":
            end = _end_of_traceback(_SQLSTATE.sub("", text).partition("\n")[2])
            return f"{end}\n{text}" if end else text
        case "USER_RAISED_EXCEPTION":
            return _SQLSTATE.sub("", text.partition("] ")[2]) or text
        case "FAILED_READ_FILE.NO_HINT":
            why = _explain_failed_read(text, causes[1:])
            return f"{why}\n{text}" if why else text
        case "":
            raised = next((each.message for each in causes if each.error_class.startswith(_PYTHON_ERROR)), "")
            root = causes[-1].message.strip().partition("\n")[0] if len(causes) > 1 else ""
            task = _TASK_FAILURE.search(text)
            first = _end_of_traceback(raised) or root or (task.group(1) if task else None)
            return f"{first}\n{text}" if first and not text.startswith(first) else text
        case _:
            return text


def _end_of_traceback(text: str) -> str:
    """Its last line, such as "ValueError: bad customer 7"; "" if there is none."""
    ends = _TRACEBACK_END.findall(text)
    return ends[-1] if ends else ""


def _explain_failed_read(text: str, causes: Sequence[Cause]) -> str:
    """In one line; "" if no cause has words."""
    found = _READ_FILE.search(text)
    root = " ".join(_SQLSTATE.sub("", causes[-1].message).split()) if causes else ""
    if not root or found is None:
        return ""
    file = found.group(1)
    for cause in causes:
        if cause.error_class.startswith("MALFORMED_RECORD_IN_PARSING"):
            record = _READ_AS.search(cause.message)
            return (
                f"{file} has a record that does not fit the columns of its source: {root}"
                f"{f' (read as {record.group(1)})' if record else ''}; correct the file, or give "
                "Files(..., schema='...') that it fits, or options={'mode': 'PERMISSIVE'} to have NULL there"
            )
        if any(words in cause.message for words in _HEADER_MISFITS):
            return (
                f"{file} has a header that does not fit the columns of its source: {root}; correct the file or "
                "schema=, or say options={'enforceSchema': 'true'} to match columns by position and ignore headers"
            )
    return f"{file}: {root}"
