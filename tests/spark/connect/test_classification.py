"""From error class, message and chain to a kind. The texts are Spark 4.2's own (shortened)."""

from __future__ import annotations

import pytest

from airflow_abs.spark.connect.classification import classify, lead_with_users_words, leading_class
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

JOB_ABORTED = (
    "Job aborted due to stage failure: Task 0 in stage 15.0 failed 1 times, most recent failure: Lost task 0.0 in "
    "stage 15.0 (TID 20) (localhost executor driver): "
)
UDF = (
    "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):\n"
    '  File "/dags/orders.py", line 58, in boom\n'
    '    raise ValueError("bad customer 7")\n'
    "ValueError: bad customer 7\n"
    " SQLSTATE: 38000"
)
PYTHON_41 = Cause(
    "org.apache.spark.api.python.PythonException",
    'Traceback (most recent call last):\n  File "/dags/orders.py", line 58, in boom\n'
    '    raise ValueError("bad customer 7")\nValueError: bad customer 7\n',
)
MEMORY_41 = Cause(PYTHON_41.error_class, "Traceback (most recent call last):\nMemoryError\n")
HEADER = Cause("", "CSV header does not conform to the schema.")
READ_FAILED = (
    "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///x/part-0.parquet.  SQLSTATE: KD001"
)


@pytest.mark.parametrize(
    ("kind", "error_class", "message", "causes"),
    [
        (UserCodeError, "UNRESOLVED_COLUMN.WITH_SUGGESTION", "[UNRESOLVED_COLUMN...] A column ...", []),
        (UserCodeError, "CAST_INVALID_INPUT", "[CAST_INVALID_INPUT] The value 'x1' ...", []),
        (UserCodeError, "DIVIDE_BY_ZERO", "[DIVIDE_BY_ZERO] Division by zero.", []),
        (UserCodeError, "PARSE_SYNTAX_ERROR", "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'.", []),
        (UserCodeError, "DATA_SOURCE_NOT_FOUND", "[DATA_SOURCE_NOT_FOUND] ...", []),
        (UserCodeError, "", "CLIENT: Received message larger than max (200000000 vs. 134217728)", []),
        (UserCodeError, "A_CLASS_THAT_NOBODY_KNOWS_YET", "...", []),
        (UserCodeError, "PYTHON_EXCEPTION", UDF, []),
        (UserCodeError, "", JOB_ABORTED, [Cause("ARITHMETIC_OVERFLOW", "[ARITHMETIC_OVERFLOW] overflow.")]),
        (UserCodeError, "TASK_WRITE_FAILED", "[TASK_WRITE_FAILED] ...", [Cause("CAST_INVALID_INPUT", "...")]),
        (UserCodeError, "FAILED_READ_FILE.NO_HINT", READ_FAILED, [Cause("MALFORMED_RECORD_IN_PARSING", "...")]),
        (
            UserCodeError,
            "FAILED_READ_FILE.NO_HINT",
            READ_FAILED,
            [Cause("", "CSV header does not conform to the schema.")],
        ),
        (UserCodeError, "FAILED_READ_FILE.NO_HINT", READ_FAILED, [Cause("UNSUPPORTED_CALL.WITHOUT_SUGGESTION", "...")]),
        (SubtaskOutOfMemoryError, "PYTHON_EXCEPTION", UDF.replace("ValueError: bad customer 7", "MemoryError"), []),
        (UserCodeError, "", JOB_ABORTED, [Cause("org.apache.spark.SparkException", JOB_ABORTED), PYTHON_41]),
        (SubtaskOutOfMemoryError, "", JOB_ABORTED, [MEMORY_41]),
        (SubtaskOutOfMemoryError, "", "Java heap space", []),
        (SubtaskOutOfMemoryError, "", JOB_ABORTED + "java.lang.OutOfMemoryError: Java heap space", []),
        (SubtaskOutOfMemoryError, "UNABLE_TO_ACQUIRE_MEMORY", "[UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 64 B", []),
        (SubtaskOutOfMemoryError, "FAILED_READ_FILE.NO_HINT", READ_FAILED, [Cause("java.lang.OutOfMemoryError", "x")]),
        (
            SubtaskOutOfMemoryError,
            "",
            JOB_ABORTED + "ExecutorLostFailure (executor 3 exited) Container killed for exceeding memory limits.",
            [],
        ),
        (ResourcesError, "TASK_WRITE_FAILED", "...", [Cause("java.io.IOException", "No space left on device")]),
        (ResourcesError, "TASK_WRITE_FAILED", "[TASK_WRITE_FAILED] Task failed while writing rows.", []),
        (InputLostError, "FAILED_READ_FILE.FILE_NOT_EXIST", "[FAILED_READ_FILE.FILE_NOT_EXIST] ...", []),
        (InputLostError, "FAILED_READ_FILE.NO_HINT", READ_FAILED, [Cause("java.lang.RuntimeException", "not Parquet")]),
        (InputLostError, "PATH_NOT_FOUND", "[PATH_NOT_FOUND] Path does not exist: file:/x.", []),
        (
            InputLostError,
            "FAILED_TO_CREATE_PLAN_FOR_DIRECT_QUERY",
            "...",
            [Cause("FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER", "...")],
        ),
        (TransientSparkError, "FAILED_READ_FILE.NO_HINT", READ_FAILED, [Cause("java.net.SocketTimeoutException", "")]),
        (TransientSparkError, "", JOB_ABORTED + "java.io.FileNotFoundException: /t/blockmgr-1/x", []),
        (TransientSparkError, "INVALID_HANDLE.SESSION_CLOSED", "[INVALID_HANDLE.SESSION_CLOSED] ...", []),
        (TransientSparkError, "INVALID_HANDLE.OPERATION_ABANDONED", "...", []),
        (TransientSparkError, "INTERNAL_ERROR", "[INTERNAL_ERROR] The Spark SQL phase planning failed", []),
        (
            TransientSparkError,
            "",
            JOB_ABORTED + "org.apache.spark.SparkException: Python worker exited unexpectedly",
            [],
        ),
        (TransientSparkError, "", "something nobody has seen before", []),
        (OperationCancelledError, "OPERATION_CANCELED", "[OPERATION_CANCELED] Operation has been canceled.", []),
        (OperationTakenOverError, "INVALID_CURSOR.DISCONNECTED", "[INVALID_CURSOR.DISCONNECTED] The cursor ...", []),
    ],
)
def test_an_error_gets_its_kind(
    kind: type[SparkOperationError], error_class: str, message: str, causes: list[Cause]
) -> None:
    assert classify(error_class, message, causes) is kind


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("[DIVIDE_BY_ZERO] Division by zero.", "DIVIDE_BY_ZERO"),
        ("\n[PARSE_SYNTAX_ERROR] Syntax error", "PARSE_SYNTAX_ERROR"),
        (
            "(org.apache.spark.sql.AnalysisException) [UNRESOLVED_COLUMN.WITH_SUGGESTION] A",
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        ),
        ("org.apache.spark.SparkException: [INTERNAL_ERROR] x", "INTERNAL_ERROR"),
        ("Job aborted: [NOT_LEADING] x", ""),
        ("[1, 2] is a list", ""),
        ("", ""),
    ],
)
def test_the_class_may_stand_at_the_head_of_the_message(message: str, found: str) -> None:
    assert leading_class(message) == found


def test_an_exception_in_a_udf_leads_with_its_own_line() -> None:
    assert lead_with_users_words(UDF) == f"ValueError: bad customer 7\n{UDF}"


def test_an_exception_without_a_message_leads_with_its_name() -> None:
    text = UDF.replace("ValueError: bad customer 7\n", "KeyError\n")
    assert lead_with_users_words(text).splitlines()[0] == "KeyError"


def test_a_raised_error_is_its_words_alone() -> None:
    assert lead_with_users_words("[USER_RAISED_EXCEPTION] my own words SQLSTATE: P0001") == "my own words"


def test_a_failed_job_leads_with_what_the_task_died_of() -> None:
    text = (
        JOB_ABORTED + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).\n\tat org.x(Y:1)"
    )
    assert lead_with_users_words(text).splitlines()[0] == "Python worker exited unexpectedly (crashed)."


def test_a_chain_without_classes_leads_with_its_root() -> None:
    causes = [
        Cause("org.apache.spark.SparkException", JOB_ABORTED),
        Cause("java.io.IOException", "Mkdirs failed\nmore"),
    ]
    assert lead_with_users_words(JOB_ABORTED, causes).splitlines()[0] == "Mkdirs failed"


def test_a_record_that_does_not_fit_leads_with_its_file_and_why_and_what_to_do() -> None:
    malformed = (
        "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected in record parsing: [3,null].\n"
        "Parse Mode: FAILFAST. To process malformed records as null result, try setting the option 'mode' as "
        "'PERMISSIVE'.  SQLSTATE: 22023"
    )
    causes = [
        Cause("FAILED_READ_FILE.NO_HINT", READ_FAILED),
        Cause("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", malformed),
        Cause("MALFORMED_CSV_RECORD", "[MALFORMED_CSV_RECORD] Malformed CSV record: 3,4,5 SQLSTATE: KD000"),
    ]
    assert lead_with_users_words(READ_FAILED, causes) == (
        "file:///x/part-0.parquet has a record that does not fit the columns of its source: [MALFORMED_CSV_RECORD] "
        "Malformed CSV record: 3,4,5 (read as [3,null]); correct the file, or give Files(..., schema='...') that it "
        f"fits, or options={{'mode': 'PERMISSIVE'}} to have NULL there\n{READ_FAILED}"
    )


def test_a_header_that_does_not_fit_leads_with_both() -> None:
    header = "CSV header does not conform to the schema.\n Header: x, id\n Schema: id, x"
    causes = [Cause("FAILED_READ_FILE.NO_HINT", READ_FAILED), Cause("_LEGACY_ERROR_TEMP_3241", header)]
    assert lead_with_users_words(READ_FAILED, causes) == (
        "file:///x/part-0.parquet has a header that does not fit the columns of its source: CSV header does not "
        "conform to the schema. Header: x, id Schema: id, x; correct the file or schema=, or say "
        "options={'enforceSchema': 'true'} to match columns by position and ignore headers\n"
        f"{READ_FAILED}"
    )


@pytest.mark.parametrize(
    ("words", "first"),
    [("not a Parquet file", "file:///x/part-0.parquet: not a Parquet file"), ("", READ_FAILED)],
)
def test_a_file_that_cannot_be_read_leads_with_why_if_that_is_known(words: str, first: str) -> None:
    causes = [Cause("FAILED_READ_FILE.NO_HINT", READ_FAILED), Cause("java.lang.RuntimeException", words)]
    assert lead_with_users_words(READ_FAILED, causes).splitlines()[0] == first


def test_other_messages_stay_as_they_are() -> None:
    assert lead_with_users_words("\n[PARSE_SYNTAX_ERROR] Syntax error\n== SQL ==\nselec 1\n") == (
        "[PARSE_SYNTAX_ERROR] Syntax error\n== SQL ==\nselec 1"
    )
