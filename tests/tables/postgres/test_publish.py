"""One transaction for each run: modes, conditions, runs at once, and what is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_abs.exchange.errors import CommitConflictError, SupersededError
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.postgres.publish import TransactionPublication
from tests.tables.postgres.warehouse import PASSWORD, Warehouse

pytestmark = pytest.mark.cluster

_PATIENCE = 120


@pytest.fixture
def t(warehouse: Warehouse) -> Warehouse:
    warehouse.execute("CREATE TABLE t (id bigint, day text)")
    return warehouse


def rows(*ids: int, day: str = "monday") -> list[dict[str, Any]]:
    return [{"id": number, "day": day} for number in ids]


def ids(warehouse: Warehouse) -> list[int]:
    return [number for (number,) in warehouse.execute("SELECT id FROM t ORDER BY id")]


def test_eight_runs_at_once_each_tried_by_two_are_each_in_the_table_once(t: Warehouse, tmp_path: Path) -> None:
    target = t.target(table="t")

    def publish(number: int) -> bool:
        run = number % 8
        mine = rows(*range(run * 10, run * 10 + 10))
        return bool(t.publish(target, tmp_path / str(number), mine, run=f"run-{run}")["changed"])

    with ThreadPoolExecutor(16) as pool:
        changed = [each.result(_PATIENCE) for each in [pool.submit(publish, number) for number in range(16)]]
    assert (ids(t), sum(changed)) == (list(range(80)), 8)
    assert len(t.execute("SELECT run FROM airflow_abs_runs")) == 8


def test_eight_runs_at_once_that_overwrite_their_days_leave_each_day_once(t: Warehouse, tmp_path: Path) -> None:
    def publish(number: int) -> None:
        target = t.target(table="t", mode="overwrite", where=f"day = 'd{number}'")
        t.publish(target, tmp_path / str(number), rows(number, day=f"d{number}"), run=f"run-{number}")

    first = [each for number in range(9) for each in rows(100 + number, day=f"d{number}")]
    t.publish(t.target(table="t"), tmp_path, first, run="first")  # whose entry in the ledger all of them change
    with ThreadPoolExecutor(8) as pool:
        for each in [pool.submit(publish, number) for number in range(8)]:
            each.result(_PATIENCE)
    assert ids(t) == [*range(8), 108]


def test_a_condition_is_overwritten_and_nothing_beyond_it(t: Warehouse, tmp_path: Path) -> None:
    every, monday = t.target(table="t"), t.target(table="t", mode="overwrite", where="day = 'monday'")
    t.publish(every, tmp_path, [*rows(1), *rows(2, day="sunday")], run="first")
    told = t.publish(monday, tmp_path, rows(3), run="second")
    assert (ids(t), told["replaced"]) == ([2, 3], ("dag/first/job/t",))
    t.publish(monday, tmp_path, rows(4), run="second")  # cleared
    assert ids(t) == [2, 4]
    # of the first run a row is left, and its ledger says so: published again, it has something to do
    assert t.publish(every, tmp_path, [*rows(1), *rows(2, day="sunday")], run="first")["changed"] is True
    assert ids(t) == [1, 2, 4]


def test_rows_outside_the_condition_are_refused(t: Warehouse, tmp_path: Path) -> None:
    monday = t.target(table="t", mode="overwrite", where="day = 'monday'")
    strange = [*rows(1), *rows(2, day="sunday"), {"id": 3, "day": None}]
    with pytest.raises(TableError, match=r"warehouse\.t: 2 of the run's 3 rows do not meet where=\"day = 'monday'\""):
        t.publish(monday, tmp_path, strange)
    assert ids(t) == []


def test_rows_of_a_cleared_run_that_others_changed_cannot_be_taken_back(t: Warehouse, tmp_path: Path) -> None:
    target = t.target(table="t")
    t.publish(target, tmp_path, rows(1, 2))
    t.execute("UPDATE t SET day = 'changed' WHERE id = 2")
    with pytest.raises(TableError, match=r"warehouse\.t: this run published 2 rows, of which 1 are as they were, so"):
        t.publish(target, tmp_path, rows(3))
    assert ids(t) == [1, 2]


def test_rows_are_known_after_the_table_was_vacuumed_and_rewritten(t: Warehouse, tmp_path: Path) -> None:
    target = t.target(table="t")
    t.publish(target, tmp_path, rows(1, 2), run="first")
    t.publish(target, tmp_path, rows(3), run="second")
    for statement in ("VACUUM FREEZE t", "VACUUM FULL t", "ALTER TABLE t ADD COLUMN filled int DEFAULT 7"):
        t.execute(statement)
    target = t.target(table="t", columns=["id", "day"])
    t.publish(target, tmp_path, rows(4), run="first")
    assert t.execute("SELECT id, filled FROM t ORDER BY id") == [(3, 7), (4, 7)]


def test_what_another_transaction_is_about_to_write_is_waited_for_and_not_overwritten_unseen(
    t: Warehouse, tmp_path: Path
) -> None:
    target = t.target(table="t", mode="overwrite")
    other = t.open()
    with other.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (9, 'other')")

    def at(step: str) -> None:
        if step == "staged":
            other.commit()

    with pytest.raises(CommitConflictError, match=r"warehouse\.t: others committed 1 row while this run was about to"):
        t.publish(target, tmp_path, rows(1), on_step=at)
    other.close()
    assert ids(t) == [9]


def test_updates_of_what_is_overwritten_are_not_overwritten_unseen(t: Warehouse, tmp_path: Path) -> None:
    t.execute("INSERT INTO t VALUES (1, 'monday')")
    target = t.target(table="t", mode="overwrite")

    def at(step: str) -> None:
        if step == "staged":
            t.execute("UPDATE t SET day = day || '!'")

    with pytest.raises(CommitConflictError, match=r"warehouse\.t: others changed rows while this run was about to"):
        t.publish(target, tmp_path, rows(2), on_step=at)
    assert t.execute("SELECT * FROM t") == [(1, "monday!")]
    t.publish(target, tmp_path, rows(2))
    assert ids(t) == [2]


def test_what_others_write_between_two_tries_is_not_overwritten_unseen(
    t: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one fails at the ledger, where another run that overwrites another day changes the same entry."""
    t.publish(t.target(table="t"), tmp_path, [*rows(1), *rows(2, day="sunday")], run="first")
    monday, sunday = (t.target(table="t", mode="overwrite", where=f"day = '{day}'") for day in ("monday", "sunday"))
    tries: list[None] = []
    real = TransactionPublication._try

    def try_after(publication: TransactionPublication) -> Any:
        tries.append(None)
        if len(tries) == 3:  # the second one is of the other run
            t.execute("INSERT INTO t VALUES (9, 'monday')")
        return real(publication)

    def at(step: str) -> None:
        if step == "staged" and len(tries) == 1:
            t.publish(sunday, tmp_path / "sunday", rows(4, day="sunday"), run="third")

    monkeypatch.setattr(TransactionPublication, "_try", try_after)
    with pytest.raises(CommitConflictError, match=r"warehouse\.t: others committed 1 row while this run was about to"):
        t.publish(monday, tmp_path / "monday", rows(3), run="second", on_step=at)
    assert ids(t) == [1, 4, 9]


def test_a_run_of_which_others_have_overwritten_all_rows_is_not_published_a_second_time(
    t: Warehouse, tmp_path: Path
) -> None:
    target = t.target(table="t", mode="overwrite")
    monday = Publisher("prod:dag/monday/job", 2, "dag/monday/job")
    t.publish(target, tmp_path / "a", rows(1), publisher=monday)
    assert t.publish(target, tmp_path / "b", rows(2), run="tuesday")["replaced"] == ("prod:dag/monday/job",)
    assert t.publish(target, tmp_path / "a", rows(1), publisher=monday)["changed"] is False
    with pytest.raises(SupersededError):  # of an earlier plan, which wakes up
        t.publish(target, tmp_path / "c", rows(3), publisher=replace(monday, generation=1))
    assert ids(t) == [2]
    t.publish(target, tmp_path / "d", rows(4), publisher=replace(monday, generation=3))
    assert t.publish(target, tmp_path / "b", rows(2), run="tuesday")["changed"] is False
    assert ids(t) == [4]


def test_two_tries_of_a_run_that_overwrites_publish_it_once(t: Warehouse, tmp_path: Path) -> None:
    t.execute("INSERT INTO t VALUES (1, 'monday')")
    target = t.target(table="t", mode="overwrite")
    told: list[bool] = []

    def at(step: str) -> None:
        if step == "staged":
            told.append(t.publish(target, tmp_path, rows(2))["changed"])

    assert (t.publish(target, tmp_path, rows(2), on_step=at)["changed"], told) == (False, [True])
    assert ids(t) == [2]


def test_a_cleared_run_whose_rows_others_change_meanwhile_looks_again_and_is_refused(
    t: Warehouse, tmp_path: Path
) -> None:
    target = t.target(table="t")
    t.publish(target, tmp_path, rows(1))

    def at(step: str) -> None:
        if step == "staged":
            t.execute("UPDATE t SET day = 'other' WHERE day <> 'other'")

    with pytest.raises(TableError, match="this run published 1 row, of which 0 are as they were"):
        t.publish(target, tmp_path, rows(2), on_step=at)
    assert ids(t) == [1]


def test_a_reader_sees_the_old_rows_until_the_new_ones_are_there(t: Warehouse, tmp_path: Path) -> None:
    t.execute("INSERT INTO t VALUES (1, 'old')")
    seen: dict[str, list[int]] = {}
    t.publish(t.target(table="t", mode="overwrite"), tmp_path, rows(2, 3), on_step=lambda s: seen.update({s: ids(t)}))
    assert seen == {"staged": [1], "ready": [1], "committed": [2, 3]}


def test_what_the_server_refuses_is_told_and_nothing_is_published(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.execute("CREATE TABLE t (id bigint PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, day text NOT NULL)")
    target = warehouse.target(table="t")
    for wrong, message in ((rows(1, 1), "duplicate key value"), ([{"id": 1, "day": None}], "null value in column")):
        with pytest.raises(TableError, match=rf"warehouse\.t: cannot be published to: {message} .*; nothing was publi"):
            warehouse.publish(target, tmp_path, wrong if wrong[0]["day"] else pa.Table.from_pylist(wrong, SCHEMA))
        assert ids(warehouse) == []


SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


def test_a_trigger_that_drops_rows_is_refused(t: Warehouse, tmp_path: Path) -> None:
    t.execute("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    t.execute("CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.id = 2) EXECUTE FUNCTION f()")
    with pytest.raises(TableError, match=r"warehouse\.t: took 1 of 2 rows, as a trigger or rule of its own changes"):
        t.publish(t.target(table="t"), tmp_path, rows(1, 2))
    assert ids(t) == []


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "SET DEFAULT"])
def test_rows_of_other_tables_that_would_go_with_replaced_ones_are_kept(
    warehouse: Warehouse, tmp_path: Path, action: str
) -> None:
    warehouse.execute("CREATE TABLE t (id bigint PRIMARY KEY, day text)")
    append, overwrite = warehouse.target(table="t"), warehouse.target(table="t", mode="overwrite")
    warehouse.publish(append, tmp_path, rows(1))
    warehouse.execute(f'CREATE TABLE "Orders" (t bigint DEFAULT 0 REFERENCES t ON DELETE {action})')
    warehouse.execute('INSERT INTO "Orders" VALUES (1)')
    refused = r'warehouse\.t: replacing its rows deletes or changes rows of public\."Orders", whose foreign keys to it'
    with pytest.raises(TableError, match=refused):
        warehouse.target(table="t", mode="overwrite")
    with pytest.raises(TableError, match=refused):  # the key was made after plan
        warehouse.publish(overwrite, tmp_path, rows(1, 2), run="tuesday")
    with pytest.raises(TableError, match=refused):
        warehouse.publish(append, tmp_path, rows(1, 2))
    assert warehouse.execute('SELECT * FROM "Orders"') == [(1,)]
    warehouse.publish(append, tmp_path, rows(2), run="tuesday")
    assert ids(warehouse) == [1, 2]


def test_rows_that_others_refer_to_may_be_replaced_by_the_same(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.execute("CREATE TABLE t (id bigint PRIMARY KEY, day text)")
    target = warehouse.target(table="t", mode="overwrite")
    warehouse.publish(target, tmp_path, rows(1))
    warehouse.execute("CREATE TABLE orders (t bigint REFERENCES t DEFERRABLE INITIALLY DEFERRED)")
    warehouse.execute("INSERT INTO orders VALUES (1)")
    warehouse.publish(target, tmp_path, rows(1, 2), run="tuesday")
    assert (ids(warehouse), warehouse.execute("SELECT * FROM orders")) == ([1, 2], [(1,)])
    with pytest.raises(TableError, match="violates foreign key constraint"):
        warehouse.publish(target, tmp_path, rows(2), run="wednesday")
    assert ids(warehouse) == [1, 2]


def test_rows_of_a_table_whose_partition_others_refer_to_are_not_replaced(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.execute("CREATE TABLE t (id bigint, day text) PARTITION BY LIST (day)")
    warehouse.execute("CREATE TABLE t1 PARTITION OF t (PRIMARY KEY (id)) FOR VALUES IN ('monday')")
    warehouse.execute("CREATE TABLE orders (t bigint REFERENCES t1 ON DELETE CASCADE)")
    with pytest.raises(TableError, match=r"changes rows of public\.orders, whose foreign keys"):
        warehouse.target(table="t", mode="overwrite")


def test_a_table_that_refers_to_itself_is_replaced_whole_and_not_in_part(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.execute("CREATE TABLE t (id bigint PRIMARY KEY, day text, boss bigint REFERENCES t ON DELETE CASCADE)")
    target = warehouse.target(table="t", columns=["id", "day"], mode="overwrite")
    for run in ("monday", "tuesday"):
        warehouse.publish(target, tmp_path, rows(1, 2), run=run)
    assert ids(warehouse) == [1, 2]
    with pytest.raises(TableError, match=r"changes rows of public\.t, whose foreign keys"):
        warehouse.target(table="t", mode="overwrite", where="day = 'monday'")


def test_a_table_that_was_made_anew_is_refused(t: Warehouse, tmp_path: Path) -> None:
    target = t.target(table="t")
    t.publish(target, tmp_path, rows(1))
    t.execute("DROP TABLE t; CREATE TABLE t (id bigint, day text)")
    with pytest.raises(TableError, match=r"warehouse\.t: is another table than the one that was planned"):
        t.publish(target, tmp_path, rows(1))
    with pytest.raises(TableError, match=r"warehouse\.t: this run published to an earlier table of this name"):
        t.publish(t.target(table="t"), tmp_path, rows(1))


@pytest.mark.parametrize("moved", ["ALTER TABLE t RENAME TO u", "CREATE SCHEMA s; ALTER TABLE t SET SCHEMA s"])
def test_a_run_is_known_by_the_table_whatever_that_is_called(t: Warehouse, tmp_path: Path, moved: str) -> None:
    t.publish(t.target(table="t"), tmp_path, rows(1), run="monday")
    t.publish(t.target(table="t"), tmp_path, rows(2), run="tuesday")
    t.execute(moved)
    name = "u" if "RENAME" in moved else "s.t"
    target = t.target(table=name)
    assert t.publish(target, tmp_path, rows(1), run="monday")["changed"] is False
    t.publish(target, tmp_path, rows(3), run="monday")
    t.publish(target, tmp_path, rows(3), run="monday")
    assert t.execute(f"SELECT id FROM {name} ORDER BY id") == [(2,), (3,)]
    told = t.publish(t.target(table=name, mode="overwrite"), tmp_path, rows(4), run="wednesday")
    assert told["replaced"] == ("dag/tuesday/job/t", "dag/monday/job/t")
    back = "ALTER TABLE u RENAME TO t" if "RENAME" in moved else "ALTER TABLE s.t SET SCHEMA public"
    t.execute(back)
    t.publish(t.target(table="t"), tmp_path, rows(5), run="wednesday")
    assert ids(t) == [5]


def test_a_table_that_took_the_name_of_another_is_not_taken_for_it(t: Warehouse, tmp_path: Path) -> None:
    t.publish(t.target(table="t"), tmp_path, rows(1), run="monday")
    t.execute("ALTER TABLE t RENAME TO u; CREATE TABLE t (id bigint, day text)")
    t.publish(t.target(table="t"), tmp_path, rows(2), run="tuesday")
    t.publish(t.target(table="u"), tmp_path, rows(3), run="tuesday")
    assert (ids(t), t.execute("SELECT id FROM u ORDER BY id")) == ([2], [(1,), (3,)])
    with pytest.raises(TableError, match=r"warehouse\.t: this run published to an earlier table of this name"):
        t.publish(t.target(table="t"), tmp_path, rows(1), run="monday")


def test_a_connection_that_is_lost_before_the_commit_leaves_nothing_and_no_password(
    t: Warehouse, tmp_path: Path
) -> None:
    def at(step: str) -> None:
        if step == "ready":
            t.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'airflow_abs'")

    target = t.target(table="t")
    with pytest.raises(TableError, match=r"warehouse\.t: .*; whether this run is published is not known") as lost:
        t.publish(target, tmp_path, rows(1), on_step=at)
    assert PASSWORD not in str(lost.value)
    assert ids(t) == []
    assert t.publish(target, tmp_path, rows(1))["changed"] is True


def test_what_a_sink_cannot_be_told_is_refused(t: Warehouse) -> None:
    t.execute("CREATE VIEW v AS SELECT * FROM t")
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"query": "SELECT 1"}, r"warehouse\.query: query= and as_text= choose what a source reads"),
        (
            {"table": "t", "where": "id = 1"},
            r"warehouse\.t: query= and as_text= choose what a source reads, and where=",
        ),
        ({"table": "v"}, r"warehouse\.v: is not a table; expected a table, not a view"),
        ({"table": "t", "mode": "overwrite", "where": "b = 1"}, r'asked for its columns: column "b" does not exist'),
    ]
    for declared, message in refusals:
        with pytest.raises(TableError, match=message):
            t.target(**declared)


def test_a_partitioned_table_is_published_to(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.execute("CREATE TABLE t (id bigint, day text) PARTITION BY LIST (day)")
    warehouse.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES IN ('monday'); CREATE TABLE t2 PARTITION OF t DEFAULT")
    target = warehouse.target(table="t")
    warehouse.publish(target, tmp_path, [*rows(1), *rows(2, day="sunday")], run="first")
    warehouse.publish(target, tmp_path, rows(3), run="second")
    warehouse.publish(target, tmp_path, [*rows(4), *rows(5, day="sunday")], run="first")
    assert ids(warehouse) == [3, 4, 5]
    told = warehouse.publish(warehouse.target(table="t", mode="overwrite"), tmp_path, rows(6), run="third")
    assert (ids(warehouse), told["replaced"]) == ([6], ("dag/second/job/t", "dag/first/job/t"))


def test_generated_columns_are_left_out_and_others_get_their_defaults(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.execute(
        "CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY, a int, b int GENERATED ALWAYS AS (a * 2) STORED, "
        "c jsonb, d int[], e uuid, f bytea, g timestamp, h timestamptz, i numeric DEFAULT 1.5)"
    )
    target = warehouse.target(table="t")
    assert '"i", "type": "string"' in target.schema
    target = warehouse.target(table="t", columns=["a", "c", "d", "e", "f", "g", "h"])
    row = {"a": 1, "c": '{"x": 1}', "d": "{1,2}", "e": "00000000-0000-0000-0000-00000000002a", "f": b"\x00\xff"}
    table = pa.Table.from_pylist([row | {"g": 0, "h": 0}]).to_pydict()
    times = {"g": pa.array([0], pa.timestamp("us")), "h": pa.array([0], pa.timestamp("us", "UTC"))}
    warehouse.publish(target, tmp_path, pa.table(table | times))
    found = warehouse.execute(
        "SELECT id, a, b, c ->> 'x', d, e::text, f::text, g::text, h AT TIME ZONE 'UTC' = g, i::text FROM t"
    )
    epoch = "1970-01-01 00:00:00"
    assert found == [(1, 1, 2, "1", [1, 2], row["e"], "\\x00ff", epoch, True, "1.5")]


def test_a_ledger_that_an_earlier_version_made_is_taken_on_with_what_it_says(t: Warehouse, tmp_path: Path) -> None:
    target = t.target(table="t")
    t.publish(target, tmp_path, rows(1))
    t.execute("ALTER TABLE airflow_abs_runs DROP COLUMN generation")
    own = Publisher("prod:dag/monday/job", 7, "dag/monday/job", ("total",))
    t.publish(target, tmp_path, rows(2), publisher=own)
    assert ids(t) == [2]
    assert t.execute("SELECT run, generation FROM airflow_abs_runs") == [("prod:dag/monday/job", 7)]
