"""Names and texts in statements to Spark's catalog."""

from __future__ import annotations

import pytest

from airflow_abs.tables.catalog.statements import StatementError, ask, partition_clause, quote_table, string_literal
from airflow_abs.tables.errors import TableError
from tests.tables.catalog.recorded import RecordedCatalog


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("orders", "`orders`"),
        ("sales.orders", "`sales`.`orders`"),
        ("spark_catalog.sales.orders", "`spark_catalog`.`sales`.`orders`"),
        ("sales.`or.d``ers`", "`sales`.`or.d``ers`"),
    ],
)
def test_every_part_of_a_name_stands_in_backticks(name: str, quoted: str) -> None:
    assert quote_table(name) == quoted


@pytest.mark.parametrize("name", ["", "a b", "a.", ".a", "a.b.c.d", "a;b", "`a", "s3://lake/orders"])
def test_what_is_no_name_of_a_table_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"expected the name of a table in Spark's catalog, such as 'sales.orders'"):
        quote_table(name)


def test_a_partition_is_named_by_the_texts_of_its_values() -> None:
    clause = partition_clause({"day": "2026-01-01", "a`b": "it's", "region": None})
    assert clause == "PARTITION (`day` = '2026-01-01', `a``b` = 'it\\u0027s', `region` = NULL)"


@pytest.mark.parametrize(
    ("text", "literal"),
    [("a/b=c%", "'a/b=c%'"), ("\\", "'\\u005c'"), ("ü\n", "'\\u00fc\\u000a'"), ("𝄞$", "'\\U0001d11e\\u0024'")],
)
def test_characters_that_mean_something_to_the_parser_are_escaped(text: str, literal: str) -> None:
    assert string_literal(text) == literal


def test_a_statement_that_spark_refuses_is_told_with_its_words() -> None:
    catalog = RecordedCatalog(refusals={"SHOW": StatementError("no metastore today")})
    with pytest.raises(TableError, match=r"table d\.h: Spark refuses 'SHOW PARTITIONS `d`': no metastore today; check"):
        ask("d.h", catalog, "SHOW PARTITIONS `d`")
