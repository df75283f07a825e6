"""Which files a table's content is made of, from what the catalog and the folders say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_abs.tables.catalog.content import read_content
from airflow_abs.tables.catalog.statements import StatementError, StoredFile
from airflow_abs.tables.errors import TableError
from tests.tables.catalog.recorded import RecordedCatalog

BY_DAY = {"partition_columns": ["day"]}
COLUMNS = [("id", "long"), ("day", "date")]
ROOT = "file:/lake/d.db/h"


def stored(*paths: str, size: int = 10) -> list[StoredFile]:
    return [StoredFile(path, size, 1_000 + number) for number, path in enumerate(paths)]


def partitioned(partitions: dict[str, str], *paths: str, **others: Any) -> RecordedCatalog:
    return RecordedCatalog(BY_DAY, partitions, stored(*paths), COLUMNS, **others)


def test_a_table_without_partitions_holds_the_files_right_in_its_folder() -> None:
    files = [*stored(f"{ROOT}/b", f"{ROOT}/a", f"{ROOT}/old/c"), StoredFile(f"{ROOT}/empty", 0, 1)]
    content = read_content("d.h", RecordedCatalog(files=files), None, [])
    assert [each.file.path for each in content.files] == [f"{ROOT}/a", f"{ROOT}/b"]
    assert json.loads(content.schema) == json.loads(content.file_schema)


def test_files_are_of_the_partition_whose_folder_they_are_in_wherever_that_is() -> None:
    partitions = {"day=2026-01-01": f"{ROOT}/day=2026-01-02", "day=__HIVE_DEFAULT_PARTITION__": "s3a://other/x y"}
    content = read_content("d.h", partitioned(partitions, f"{ROOT}/day=2026-01-02/a", "s3a://other/x y/b"), None, [])
    assert {each.file.path: each.values for each in content.files} == {
        f"{ROOT}/day=2026-01-02/a": ("2026-01-01",),
        "s3a://other/x y/b": (None,),
    }
    assert (content.partitions, content.all_partitions) == (2, 2)
    assert [field["name"] for field in json.loads(content.file_schema)["fields"]] == ["id"]


def test_only_partitions_for_which_the_condition_may_hold_are_asked_for() -> None:
    partitions = {f"day=2026-01-0{number}": f"{ROOT}/day=2026-01-0{number}" for number in (1, 2, 3)}
    catalog = partitioned(partitions, f"{ROOT}/day=2026-01-02/a", chosen=[(1,)])
    content = read_content("d.h", catalog, "day = '2026-01-02' AND id > 5", [])
    assert (content.partitions, content.all_partitions) == (1, 3)
    assert content.condition == "((`day` = date_from_unix_date(20455)) AND (`id` > CAST('5' AS BIGINT)))"
    asked = next(each for each in catalog.asked if each.startswith("SELECT"))
    assert asked.endswith("WHERE (`day` = date_from_unix_date(20455))")
    assert sum("PARTITION (" in each for each in catalog.asked) == 1


def test_a_condition_on_other_columns_leaves_out_no_partition() -> None:
    catalog = partitioned({"day=2026-01-01": f"{ROOT}/day=2026-01-01"}, f"{ROOT}/day=2026-01-01/a")
    content = read_content("d.h", catalog, "day = '2026-01-02' OR id > 5", [])
    assert len(content.files) == 1
    assert not any(each.startswith("SELECT") for each in catalog.asked)


def test_what_files_hold_is_told_of_partition_columns_alone() -> None:
    partitions = {"day=2026-01-01": f"{ROOT}/x", "day=__HIVE_DEFAULT_PARTITION__": f"{ROOT}/y"}
    catalog = partitioned(partitions, f"{ROOT}/x/a", f"{ROOT}/y/b", chosen=[(0, 20454), (1, None)])
    content = read_content("d.h", catalog, None, ["day", "id"])
    assert [each.spans for each in content.files] == [((20454,), None), ((), None)]


def test_a_listing_is_named_by_all_that_a_file_can_change_in() -> None:
    names = {
        read_content("d.h", RecordedCatalog(files=[StoredFile(f"{ROOT}/a", size, changed)]), None, []).listing
        for size, changed in ((1, 1), (1, 2), (2, 1), (1, 1))
    }
    assert len(names) == 3


@pytest.mark.parametrize(
    ("catalog", "words"),
    [
        (
            partitioned({"day=2026-01-01": "file:/x", "day=2026-01-02": "file:/x/"}),
            r"its partitions \('2026-01-01',\) and \('2026-01-02',\) have one folder, file:/x",
        ),
        (RecordedCatalog(files=stored(f"{ROOT}/day=1/a")), "not partitioned in the catalog, and its folder .* 'day=1'"),
        (
            RecordedCatalog(refusals={"LIST": StatementError("[PATH_NOT_FOUND] file:/x")}),
            r"Spark cannot list the folders of its files: \[PATH_NOT_FOUND\] file:/x; make the folder",
        ),
        (
            RecordedCatalog(BY_DAY, columns=[("id", "long"), ("day", {"type": "udt"})]),
            "column of the type 'udt'",
        ),
        (
            RecordedCatalog(BY_DAY, columns=[("id", "long"), ("day", "interval day")]),
            "is partitioned by 'day', which is interval day; expected a string, a number",
        ),
    ],
)
def test_a_table_whose_files_would_be_read_wrongly_is_refused(catalog: RecordedCatalog, words: str) -> None:
    with pytest.raises(TableError, match=f"table d.h: .*{words}"):
        read_content("d.h", catalog, None, [])


def test_a_partition_of_another_format_is_refused() -> None:
    class Mixed(RecordedCatalog):
        def rows(self, statement: str) -> list[tuple[Any, ...]]:
            ((told,),) = found = super().rows(statement)
            if "PARTITION (" not in statement:
                return found
            return [(json.dumps({**json.loads(told), "input_format": "org.apache.hadoop.mapred.TextInputFormat"}),)]

    catalog = Mixed(BY_DAY, {"day=2026-01-01": "file:/x"}, columns=COLUMNS)
    with pytest.raises(
        TableError, match=r"PARTITION \(`day` = '2026-01-01'\) has files of another format than the tab"
    ):
        read_content("d.h", catalog, None, [])
