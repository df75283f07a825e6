"""Every setting has a default, and says what it may be."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.settings import HostSettings, JobOptions, JobSettings, VertexOptions, parse_bytes


def test_what_is_left_out_has_its_default_in_settings_and_none_in_options() -> None:
    settings, options = JobSettings(max_parallelism=8), JobOptions(slots=4)
    assert (settings.max_parallelism, settings.min_parallelism, settings.hot_keys) == (8, 1, True)
    assert (settings.inference_timeout, settings.durability, settings.slots) == (30.0, "auto", None)
    assert (options.slots, options.hot_keys, options.spark_conf, options.py_files) == (4, None, {}, ())
    assert VertexOptions().deterministic is True
    assert HostSettings(allow_token_commands="yes").allow_token_commands is True  # type: ignore[arg-type]


def test_a_target_that_nobody_sets_may_grow_by_waves() -> None:
    grows, fixed = JobSettings(), JobSettings(target_bytes="256 MiB")  # type: ignore[arg-type]
    assert (grows.target_bytes, grows.most_waves) == (128 * 2**20, 2)
    assert (fixed.target_bytes, fixed.most_waves) == (256 * 2**20, None)


def test_the_maximum_falls_back_to_the_default_parallelism() -> None:
    assert JobSettings().max_parallelism == 128
    assert JobSettings(parallelism=12).max_parallelism == 12
    assert JobSettings(parallelism=12, max_parallelism=64).max_parallelism == 64


def test_texts_of_the_configuration_are_read() -> None:
    texts: dict[str, Any] = {"hot_keys": "off", "defer_after": "2.5", "slots": "16", "local_bytes": "1GB"}
    settings = JobSettings(**texts)
    assert (settings.hot_keys, settings.defer_after, settings.slots, settings.local_bytes) == (False, 2.5, 16, 2**30)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"slots": 0}, "slots is 0; expected an integer of at least 1"),
        ({"slots": True}, "slots is True; expected an integer of at least 1"),
        ({"slots": 2.5}, "slots is 2.5; expected an integer of at least 1"),
        ({"failures_per_run": -1}, "failures_per_run is -1; expected a number of at least 0"),
        ({"failures_per_day": "inf"}, "failures_per_day is 'inf'; expected a number of at least 0"),
        ({"resource_timeout": "soon"}, "resource_timeout is 'soon'; expected a number of seconds"),
        ({"resource_stabilization": -1}, "resource_stabilization is -1; expected a number of seconds, at least 0"),
        ({"stall_after": 0}, "stall_after is 0; expected a number of seconds above 0"),
        ({"inference_timeout": 0}, "inference_timeout is 0; expected a number of seconds above 0"),
        ({"hot_keys": "maybe"}, "hot_keys is 'maybe'; expected True or False"),
        ({"strategy": "best"}, "strategy is 'best'; expected 'balanced' or 'power_of_two'"),
        ({"max_broadcast_ratio": 1}, "max_broadcast_ratio is 1; expected a number of at least 0 and below 1"),
        ({"local_bytes": "many"}, "local_bytes is 'many'; expected a size of at least 1 byte, such as 268435456 or"),
        ({"spark_conf": ["a"]}, "spark_conf is ['a']; expected a dict of Spark's settings, such as"),
        ({"py_files": "libs/one.py"}, "py_files is 'libs/one.py'; expected a list of paths, such as"),
    ],
)
def test_a_setting_that_it_may_not_be_is_refused_where_it_is_written(given: dict[str, Any], message: str) -> None:
    for kind in (JobOptions, JobSettings):
        with pytest.raises(InvalidValueError) as caught:
            kind(**given)
        assert str(caught.value).startswith(message)


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="min_parallelism is 9, above max_parallelism 4; lower one or"):
        JobSettings(min_parallelism=9, max_parallelism=4)
    with pytest.raises(InvalidValueError, match="expected a power of two between them"):
        JobSettings(strategy="power_of_two", min_parallelism=5, max_parallelism=7)
    with pytest.raises(InvalidValueError, match="start_from_trigger=True and deferrable=False contradict each other"):
        JobSettings(start_from_trigger=True, deferrable=False)


def test_what_may_hold_a_secret_is_not_told() -> None:
    told = JobSettings(spark_conf={"fs.s3a.secret.key": "x", "spark.sql.ansi.enabled": True}).told()
    assert told["target_bytes"] == 128 * 2**20
    assert "spark_conf" not in told


@pytest.mark.parametrize("value", ["", None, 0, True, "1 potato"])
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(InvalidValueError, match=r"size is .*; expected a size of at least 1 byte"):
        parse_bytes("size", value)
