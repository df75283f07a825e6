"""The table of operators against the classes in the jars of the installed Spark."""

from __future__ import annotations

import importlib.util
import struct
import zipfile
from pathlib import Path

import pytest

from airflow_abs.spark.proof.operators import Rule, all_are_known, known_operators, rule_of, tried_operators
from airflow_abs.testing.corpus_bench.sample import SAMPLE

SPARK_PLAN = "org/apache/spark/sql/execution/SparkPlan"
ABSTRACT = 0x400


def read_class(data: bytes) -> tuple[str, str | None, int]:
    """Name, superclass and access flags of a class file."""
    (count,) = struct.unpack_from(">H", data, 8)
    texts: dict[int, str] = {}
    classes: dict[int, int] = {}
    position, index = 10, 1
    while index < count:
        tag = data[position]
        if tag == 1:
            (length,) = struct.unpack_from(">H", data, position + 1)
            texts[index] = data[position + 3 : position + 3 + length].decode("utf-8", "replace")
            position += 3 + length
        else:
            if tag == 7:
                (classes[index],) = struct.unpack_from(">H", data, position + 1)
            position += 3 if tag in (7, 8, 16, 19, 20) else 4 if tag == 15 else 9 if tag in (5, 6) else 5
            index += tag in (5, 6)  # longs and doubles take two places
        index += 1
    access, this, parent = struct.unpack_from(">HHH", data, position)
    return texts[classes[this]], texts[classes[parent]] if parent else None, access


@pytest.fixture(scope="module")
def spark_operators() -> set[str]:
    """Every class of physical operators that can be in a plan, without ``Exec``."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    parents: dict[str, str | None] = {}
    concrete = set()
    for jar in Path(spec.submodule_search_locations[0]).glob("jars/spark-*sql*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.endswith(".class"):
                    name, parent, access = read_class(archive.read(entry))
                    parents[name] = parent
                    if not access & ABSTRACT:
                        concrete.add(name)

    def is_operator(name: str | None) -> bool:
        while name is not None and name != SPARK_PLAN:
            name = parents.get(name)
        return name is not None

    return {name.rpartition("/")[2].removesuffix("Exec") for name in concrete if is_operator(name)}


def test_every_physical_operator_of_the_installed_spark_has_a_rule(spark_operators: set[str]) -> None:
    assert len(spark_operators) > 150
    assert spark_operators - known_operators() == set()


def test_the_table_names_no_operator_that_spark_does_not_have(spark_operators: set[str]) -> None:
    assert known_operators() - spark_operators == set()


@pytest.mark.parametrize(
    ("shown", "rule"),
    [
        ("HashAggregate", Rule.GROUPED),
        ("SortMergeJoin LeftOuter", Rule.JOIN),
        ("BroadcastHashJoin ExistenceJoin(exists#12) BuildRight", Rule.JOIN),
        ("Scan OneRowRelation", Rule.LOCAL_ROWS),
        ("Scan parquet spark_catalog.default.orders", Rule.SCAN),
        ("BatchScan orders", Rule.SCAN),
        ("Execute InsertIntoHadoopFsRelationCommand", Rule.REFUSED),
        ("AggregateInPandas", Rule.GROUPED),
        ("SomethingNew", Rule.REFUSED),
        ("SortMergeSomething Inner", Rule.REFUSED),
        # what Comet and Gluten make of operators
        ("CometHashAggregate", Rule.REFUSED),
        ("CometSortMergeJoin Inner", Rule.REFUSED),
        ("CometScan parquet", Rule.REFUSED),
        ("CometColumnarToRow", Rule.REFUSED),
        ("HashAggregateTransformer", Rule.REFUSED),
        ("BroadcastHashJoinExecTransformer LeftOuter BuildRight", Rule.REFUSED),
    ],
)
def test_an_operator_is_known_by_the_name_that_spark_shows_and_refused_if_it_is_not(shown: str, rule: Rule) -> None:
    assert rule_of(shown) is rule


def test_what_counts_as_tried_on_other_releases_is_what_the_corpus_shows() -> None:
    of_sample = {shown for shown in SAMPLE if not shown.startswith("refused: ")}
    assert tried_operators("4.3.0") == of_sample
    assert tried_operators("4.1.4") - of_sample == {"BatchEvalPython", "BatchEvalPythonUDTF"}
    assert tried_operators("4.0.5") - tried_operators("4.1.4") == {"AggregateInPandas"}


@pytest.mark.parametrize(("release", "known"), [("4.2.0", True), ("4.2.7-x", True), ("4.3.0", False), ("4.1.4", False)])
def test_the_table_holds_for_the_release_line_that_it_is_compared_with(release: str, known: bool) -> None:
    assert all_are_known(release) is known
