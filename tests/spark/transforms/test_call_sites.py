from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from airflow_abs.spark.transforms.call_sites import find_lines, recorded_call_sites


def make_a_plan() -> str:
    """Makes a relation, and says in which line."""
    from pyspark.sql.connect.plan import Range

    Range(start=0, end=1, step=1)
    return f"test_call_sites.py:{inspect.getsourcelines(make_a_plan)[1] + 4}"


def test_a_line_of_the_authors_is_recorded_inside_the_block_only() -> None:
    make_a_plan()
    with recorded_call_sites() as sites:
        line = make_a_plan()
    make_a_plan()
    assert list(sites.values()) == [line]


def test_threads_that_compile_side_by_side_record_each_its_own() -> None:
    both = Barrier(2, timeout=10)

    def leave_first() -> list[str]:
        with recorded_call_sites() as sites:
            both.wait()  # both are inside
            make_a_plan()
        both.wait()
        return list(sites.values())

    def leave_last() -> list[str]:
        with recorded_call_sites() as sites:
            both.wait()
            both.wait()  # the other has left
            make_a_plan()
            make_a_plan()
        return list(sites.values())

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(leave_first), pool.submit(leave_last)
        line = make_a_plan()
        assert (first.result(), second.result()) == ([line], [line, line])
    with recorded_call_sites() as sites:
        make_a_plan()
    assert len(sites) == 1


def test_each_of_two_windows_has_its_own_line() -> None:
    from pyspark.sql.connect import proto

    inner = proto.Relation(common=proto.RelationCommon(plan_id=1), with_columns=proto.WithColumns())
    outer = proto.Relation(common=proto.RelationCommon(plan_id=2), with_columns=proto.WithColumns(input=inner))
    sites = {1: "revenue.py:9", 2: "revenue.py:12"}
    assert find_lines(outer, {"with_columns"}, sites) == " at revenue.py:9 or revenue.py:12"
