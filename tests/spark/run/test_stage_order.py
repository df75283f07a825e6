"""Stages of plans as Spark 4.2 explained them, and the stages that its progress told while they ran."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from airflow_abs.spark.connect.execute import StageProgress
from airflow_abs.spark.relations import filter_rows, placeholder_relation, read_files
from airflow_abs.spark.run.stage_order import (
    StageOrder,
    UnorderedStagesError,
    count_listings,
    mark,
    order_stages,
)
from airflow_abs.spark.template import PLACEHOLDER_PREFIX, inline, messages_of

INLINED = {f"__airflow_abs_inlined_{number}": name for number, name in ((2, "orders"), (3, "valid"), (4, "customers"))}

SHUFFLED = """== Physical Plan ==
AdaptiveSparkPlan (15)
+- Project (14)
   +- SortMergeJoin Inner (13)
      :- Sort (7)
      :  +- Exchange (6)
      :     +- Filter (5)
      :        +- CollectMetrics (4)
      :           +- Filter (3)
      :              +- CollectMetrics (2)
      :                 +- Scan parquet  (1)
      +- Sort (12)
         +- Exchange (11)
            +- Filter (10)
               +- CollectMetrics (9)
                  +- Scan parquet  (8)


(2) CollectMetrics
Arguments: __airflow_abs_inlined_2.1, [count(1) AS count(1)#181L]

(4) CollectMetrics
Arguments: __airflow_abs_inlined_3.2, [count(1) AS count(1)#184L]

(6) Exchange
Arguments: hashpartitioning(customer_id#416L, 64), ENSURE_REQUIREMENTS, [plan_id=1187]

(9) CollectMetrics
Arguments: __airflow_abs_inlined_4.3, [count(1) AS count(1)#182L]
"""
BROADCAST = """== Physical Plan ==
AdaptiveSparkPlan (12)
+- Project (11)
   +- BroadcastHashJoin Inner BuildRight (10)
      :- Filter (5)
      :  +- CollectMetrics (4)
      :     +- Filter (3)
      :        +- CollectMetrics (2)
      :           +- Scan parquet  (1)
      +- BroadcastExchange (9)
         +- Filter (8)
            +- CollectMetrics (7)
               +- Scan parquet  (6)


(2) CollectMetrics
Arguments: __airflow_abs_inlined_2.1, [count(1) AS count(1)#181L]

(4) CollectMetrics
Arguments: __airflow_abs_inlined_3.2, [count(1) AS count(1)#184L]

(7) CollectMetrics
Arguments: __airflow_abs_inlined_4.3, [count(1) AS count(1)#182L]
"""


def stages(*told: tuple[int, int]) -> list[StageProgress]:
    """Of (tasks done, tasks) each, numbered as Spark would."""
    return [StageProgress(18 + number, *each) for number, each in enumerate(told)]


def shares(order: StageOrder, seen: Sequence[StageProgress]) -> str:
    return ", ".join(f"{vertex} {share:.2g}" for vertex, share in order.shares(seen).items())


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (stages(), "customers 0, enriched 0, orders 0, valid 0"),
        (stages((2, 3), (0, 1)), "customers 0, enriched 0, orders 0.67, valid 0.67"),
        # A job that reads both shuffles lists their stages once more: those are not run.
        (stages((3, 3), (1, 1), (0, 1), (0, 3), (0, 2)), "customers 1, enriched 0, orders 1, valid 1"),
        (stages((3, 3), (1, 1), (0, 1), (0, 3), (1, 2)), "customers 1, enriched 0.5, orders 1, valid 1"),
        # A task that Spark repeats counts twice.
        (stages((4, 3), (1, 1)), "customers 1, enriched 0, orders 1, valid 1"),
    ],
)
def test_the_vertices_of_a_shuffled_join_fill_up_in_the_order_of_its_stages(
    seen: list[StageProgress], told: str
) -> None:
    assert shares(order_stages(SHUFFLED, "enriched", INLINED), seen) == told


def test_what_is_broadcast_comes_first_and_the_rest_of_the_plan_is_one_stage() -> None:
    order = order_stages(BROADCAST, "enriched", INLINED)
    assert shares(order, stages((1, 1), (2, 4))) == "customers 1, enriched 0.5, orders 0.5, valid 0.5"


def test_time_counts_for_the_first_stage_that_is_not_over_and_its_vertices_share_it() -> None:
    order = order_stages(SHUFFLED, "enriched", INLINED)
    # orders and valid in the first stage, 6 s; customers 1 s after it; two stages are told again; enriched, to the end
    assert order.seconds({0: 106.0, 1: 107.0}, 100.0, 117.0) == {
        "orders": 3.0,
        "valid": 3.0,
        "customers": 1.0,
        "enriched": 10.0,
    }
    # a second stage that is over before the first one takes nothing; one that is not told to be over takes the rest
    assert order.seconds({0: 106.0, 1: 105.0, 4: 110.0}, 100.0, 117.0) == {
        "orders": 3.0,
        "valid": 3.0,
        "customers": 0.0,
        "enriched": 4.0,
    }
    assert order.seconds({}, 100.0, 104.0) == {"orders": 2.0, "valid": 2.0, "customers": 0.0, "enriched": 0.0}


def test_time_in_which_spark_lists_files_counts_for_no_vertex() -> None:
    order = order_stages(BROADCAST, "enriched", INLINED, listings=1)
    assert order.seconds({0: 105.0, 1: 106.0}, 100.0, 109.0) == {
        "customers": 1.0,
        "enriched": 1.0,
        "orders": 1.0,
        "valid": 1.0,
    }


def test_stages_that_list_files_are_nobody_s() -> None:
    order = order_stages(BROADCAST, "enriched", INLINED, listings=1)
    assert shares(order, stages((16, 16))) == "customers 0, enriched 0, orders 0, valid 0"
    assert shares(order, stages((16, 16), (1, 1))) == "customers 1, enriched 0, orders 0, valid 0"


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(stages((3, 3), (1, 1), (1, 1), (0, 3), (0, 2)), id="a stage that should be there already runs"),
        pytest.param(stages((3, 3), (1, 1), (0, 1), (0, 3), (1, 2), (0, 1)), id="one stage more than planned"),
    ],
)
def test_a_plan_that_spark_changed_while_it_ran_is_not_guessed_at(seen: list[StageProgress]) -> None:
    with pytest.raises(UnorderedStagesError, match="Spark changed its plan while it ran"):
        order_stages(SHUFFLED, "enriched", INLINED).shares(seen)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SHUFFLED.replace("hashpartitioning(customer_id", "rangepartitioning(customer_id"), "its plan has a sort"),
        (SHUFFLED.replace("Project (14)", "TakeOrderedAndProject (14)"), "its plan has a limit"),
        (SHUFFLED.replace("Scan parquet  (8)", "InMemoryTableScan (8)"), "its plan has InMemoryTableScan"),
        ("== Parsed Logical Plan ==", "Spark's plan cannot be read"),
        (
            SHUFFLED + "\n===== Subqueries =====\n\nSubquery:1 Hosting operator id = 5 Hosting Expression = x\n"
            "Project (16)\n",
            "its plan has subqueries",
        ),
    ],
)
def test_what_runs_stages_of_its_own_has_no_order_and_says_what_it_is(text: str, why: str) -> None:
    with pytest.raises(UnorderedStagesError, match=why):
        order_stages(text, "enriched", INLINED)


def test_every_copy_of_a_vertex_in_a_plan_has_a_marker_of_its_own() -> None:
    orders = read_files(["/lake/0"], file_format="parquet", schema="id BIGINT")
    valid = inline(
        filter_rows(placeholder_relation(f"{PLACEHOLDER_PREFIX}7", "id BIGINT"), "id > 0"),
        {f"{PLACEHOLDER_PREFIX}7": orders},
    )
    both = filter_rows(
        inline(placeholder_relation(f"{PLACEHOLDER_PREFIX}8", "id BIGINT"), {f"{PLACEHOLDER_PREFIX}8": valid}), "id < 9"
    )
    marked = mark(both)
    names = [each.name for each in messages_of(marked) if each.DESCRIPTOR.name == "CollectMetrics"]
    assert sorted(name.rpartition(".")[0] for name in names) == ["__airflow_abs_inlined_7", "__airflow_abs_inlined_8"]
    assert len(set(names)) == 2
    assert count_listings(marked) == 0


def test_spark_lists_more_than_32_files_of_a_read_with_a_job() -> None:
    many = read_files([f"/lake/{number}" for number in range(33)], file_format="parquet", schema="id BIGINT")
    few = read_files([f"/lake/{number}" for number in range(32)], file_format="parquet", schema="id BIGINT")
    assert (count_listings(many), count_listings(few)) == (1, 0)
