from __future__ import annotations

from datetime import date
from functools import partial, wraps
from typing import Any

from airflow_abs.spark.transforms.arguments import coerce_arguments
from airflow_abs.spark.transforms.functions import name_of, underlying


def total(orders: Any, day: date) -> Any: ...


@wraps(total)
def decorated(*args: Any, **kwargs: Any) -> Any: ...


class Step:
    def __call__(self, orders: Any, day: date) -> Any: ...

    def method(self, orders: Any, day: date) -> Any: ...


def test_the_author_s_function_is_found_behind_whatever_wraps_it() -> None:
    step = Step()
    given = [total, partial(total), partial(partial(decorated), 1), decorated, step, partial(step), step.method]
    assert [underlying(each) for each in given] == [total] * 4 + [Step.__call__] * 2 + [Step.method]
    assert underlying(len) is len


def test_it_is_named_for_messages() -> None:
    given = [total, partial(total), decorated, Step(), partial(Step()), Step().method, lambda: None]
    assert [name_of(each) for each in given] == ["total", "total", "total", "Step", "Step", "method", "<lambda>"]


def test_its_annotations_say_what_text_becomes() -> None:
    for each in (total, partial(total), decorated, Step(), Step().method):
        assert coerce_arguments("vertex 'total'", each, {"day": "2026-01-02"}) == {"day": date(2026, 1, 2)}
