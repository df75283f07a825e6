"""The corpus leaves nothing of the API out, by the API's own listing."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_abs.testing import corpus
from airflow_abs.testing.corpus import read_corpus
from airflow_abs.testing.corpus_bench.runner import Outcome, Verdict
from airflow_abs.testing.corpus_bench.table import describe_exceptions, format_table

_CORPUS = Path(corpus.__file__).parent

LEFT_OUT: Mapping[str, str] = {
    "checkpoint": "an action; localCheckpoint stands for both",
    "dropDuplicatesWithinWatermark": "of streams only",
    "apply": "applyInPandas under its old name, with a deprecated kind of function",
    "applyInPandasWithState": "of streams only",
    "transformWithState": "of streams only",
    "transformWithStateInPandas": "of streams only",
}
"""Methods that give a DataFrame and do not occur in the corpus."""

FUNCTIONS_LEFT_OUT: Mapping[str, str] = {
    **dict.fromkeys(
        ("approx_percentile", "string_agg", "string_agg_distinct", "listagg", "listagg_distinct"),
        "occurs as SQL, or under its other name",
    ),
    **dict.fromkeys(("bitmap_and_agg", "bitmap_or_agg"), "like bitmap_construct_agg, over bitmaps"),
    **dict.fromkeys(
        [f"{sketch}_agg_{kind}" for sketch in ("kll_sketch", "kll_merge") for kind in ("bigint", "double", "float")]
        + [f"tuple_{verb}_agg_{kind}" for verb in ("sketch", "union", "intersection") for kind in ("double", "integer")]
        + ["theta_sketch_agg", "theta_union_agg", "theta_intersection_agg", "hll_union_agg", "count_min_sketch"],
        "like hll_sketch_agg: an aggregate whose bytes may depend on the order of rows",
    ),
}
_GROUPS = ("Aggregate Functions", "Window Functions", "Generator Functions")


def names_in_corpus() -> set[str]:
    """Every attribute that occurs in a transform, such as `groupBy` in ``o.groupBy(...)``."""
    trees = [ast.parse(path.read_text()) for path in _CORPUS.glob("*.py")]
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize("kind", ["DataFrame", "GroupedData"])
def test_every_method_that_gives_a_dataframe_is_in_the_corpus_or_left_out_for_a_reason(kind: str) -> None:
    from pyspark.sql import DataFrame, GroupedData

    listed = {"DataFrame": DataFrame, "GroupedData": GroupedData}[kind]
    methods = {
        name
        for name in dir(listed)
        if not name.startswith("_")
        and name != "pandas_api"  # pandas on Spark, not a DataFrame of Spark
        and re.search(
            r"(?<!Pandas)(DataFrame|GroupedData|CogroupedOps)\b(?!Like)",
            str(getattr(getattr(listed, name), "__annotations__", {}).get("return", "")),
        )
    }
    assert len(methods) > (60 if kind == "DataFrame" else 10)
    assert methods - names_in_corpus() - set(LEFT_OUT) == set()
    assert not set(LEFT_OUT) & names_in_corpus()


def test_every_aggregate_window_and_generator_function_is_in_the_corpus_or_left_out_for_a_reason() -> None:
    from pyspark.sql import functions

    listed: dict[str, list[str]] = {}
    group = ""
    for line in Path(str(functions.__file__)).read_text().splitlines():
        if title := re.fullmatch(r"\s+# (.*Functions)", line):
            group = title[1]
        elif entry := re.fullmatch(r'\s+"(\w+)",', line):
            listed.setdefault(group, []).append(entry[1])
    wanted = {name for each in _GROUPS for name in listed[each]}
    assert len(wanted) > 90
    words = set(re.findall(r"\w+", "\n".join(path.read_text() for path in _CORPUS.glob("*.py"))))
    assert wanted - words - set(FUNCTIONS_LEFT_OUT) - {f"regr_{name}" for name in words} == set()


def test_there_are_at_least_two_hundred_entries_of_both_kinds() -> None:
    entries = read_corpus()
    assert len(entries) >= 200
    assert min(sum(entry.safe for entry in entries), sum(not entry.safe for entry in entries)) >= 100


def test_the_table_counts_entries_by_family_and_outcome() -> None:
    first, *others = read_corpus(("row_wise",))[:3]
    verdicts = [Verdict(first, Outcome.WRONG, "at 7: 1 rows"), *(Verdict(entry, Outcome.RIGHT) for entry in others)]
    assert format_table(verdicts) == (
        "| family     | entries | accepted, right | refused | green but wrong | refused needlessly | failed in run |\n"
        "|------------|---------|-----------------|---------|-----------------|--------------------|---------------|\n"
        "| row by row |       3 |               2 |       0 |               1 |                  0 |             0 |\n"
        "| all        |       3 |               2 |       0 |               1 |                  0 |             0 |"
    )
    assert describe_exceptions(verdicts) == "green but wrong: select_columns (safe): at 7: 1 rows"
