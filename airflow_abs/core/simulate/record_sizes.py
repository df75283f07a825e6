"""How large the JSON is that a subtask leaves: its XCom in Airflow's database, its manifest in the exchange.

Both grow with the number of subpartitions; the constants are those of `exchange/records/reports.py` and
`exchange/records/manifest.py`, to which a test holds them.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_abs.core.simulate.recorded_job import RecordedResult

_XCOM, _XCOM_RESULT = 160, 30
_MANIFEST, _MANIFEST_RESULT, _MANIFEST_FILE = 200, 120, 240


def xcom_bytes(results: Sequence[RecordedResult], subtasks: int) -> int:
    """What one of the subtasks pushes: bytes per subpartition of each result."""
    return _XCOM + sum(
        _XCOM_RESULT + each.subpartitions * (_digits(each.bytes, subtasks * each.subpartitions) + 2) for each in results
    )


def manifest_bytes(results: Sequence[RecordedResult], subtasks: int, files: int) -> int:
    """The manifest of a subtask that wrote so many files of each result: bytes per subpartition of each file."""
    return _MANIFEST + sum(
        _MANIFEST_RESULT
        + each.name_bytes
        + files
        * (_MANIFEST_FILE + each.subpartitions * (_digits(each.bytes, subtasks * each.subpartitions * files) + 1))
        for each in results
    )


def _digits(total: int, cells: int) -> int:
    return len(str(total // cells))
