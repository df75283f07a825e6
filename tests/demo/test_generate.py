from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import duckdb
import pytest

from airflow_abs.demo.generate import HOT_CUSTOMER, Dataset, DataSpec, day_rows, generate

pytestmark = pytest.mark.slow

DAYS = (date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3))
SCALE = 0.01  # 15,000 TPC-H orders


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> list[Dataset]:
    return generate(DataSpec(tmp_path_factory.mktemp("lake"), DAYS, SCALE, hot_day=DAYS[2]))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")}


def test_any_three_days_in_a_row_differ_at_least_20_fold() -> None:
    for first in range(400):
        rows = [day_rows(DAYS[0] + timedelta(first + offset), 1_500_000) for offset in range(3)]
        assert max(rows) >= 20 * min(rows)


def test_days_have_files_in_proportion_to_their_volume(lake: list[Dataset]) -> None:
    # 15,000 orders: shares 1/32, 9/32 and 30/32 of them, 94, 90 and 97 percent of that; a file per 1,875 or fewer.
    assert [(made.name, made.rows, made.files) for made in lake] == [
        ("customers", 1_500, 4),
        ("orders/ds=2026-01-01", 440, 1),
        ("orders/ds=2026-01-02", 3_796, 3),
        ("orders/ds=2026-01-03", 13_640, 8),
    ]


def test_orders_and_customers_have_the_documented_columns(lake: list[Dataset]) -> None:
    def columns(made: Dataset) -> dict[str, str]:
        query = f"DESCRIBE SELECT * FROM read_parquet('{made.path}/*.parquet', hive_partitioning = false)"
        return {row[0]: row[1] for row in duckdb.sql(query).fetchall()}

    assert columns(lake[0]) == dict.fromkeys(["name", "segment", "nation", "region"], "VARCHAR") | {
        "customer_id": "BIGINT"
    }
    assert columns(lake[1]) == {
        "order_id": "BIGINT",
        "customer_id": "BIGINT",
        "order_date": "DATE",
        "amount": "DECIMAL(12,2)",
        "status": "VARCHAR",
        "priority": "VARCHAR",
        "comment": "VARCHAR",
    }


def test_every_order_has_one_id_over_all_days_and_a_known_customer(lake: list[Dataset]) -> None:
    orders = f"'{lake[0].path.parent}/orders/*/*.parquet'"
    customers = f"'{lake[0].path}/*.parquet'"
    count, distinct = duckdb.sql(f"SELECT count(*), count(DISTINCT order_id) FROM {orders}").fetchall()[0]
    assert count == distinct == sum(made.rows for made in lake[1:])
    unknown = duckdb.sql(f"SELECT count(*) FROM {orders} ANTI JOIN {customers} USING (customer_id)").fetchall()
    assert unknown == [(0,)]


def test_on_the_hot_day_one_customer_has_two_orders_in_five(lake: list[Dataset]) -> None:
    shares = [
        duckdb.sql(f"SELECT avg((customer_id = {HOT_CUSTOMER})::INT) FROM '{made.path}/*.parquet'").fetchall()[0][0]
        for made in lake[1:]
    ]
    assert shares[0] < 0.01
    assert shares[1] < 0.01
    assert shares[2] == pytest.approx(0.4, abs=0.01)


def test_a_day_does_not_depend_on_the_other_days(lake: list[Dataset], tmp_path: Path) -> None:
    generate(DataSpec(tmp_path, (DAYS[1],), SCALE))
    name = "orders/ds=2026-01-02"
    assert files(tmp_path / name) == files(lake[0].path.parent / name)


def test_what_is_there_is_left_alone_and_only_what_is_new_is_made(tmp_path: Path) -> None:
    said: list[str] = []
    generate(DataSpec(tmp_path, DAYS[:1], SCALE))
    before = files(tmp_path)
    again = generate(DataSpec(tmp_path, DAYS[:2], SCALE), said.append)
    assert [made.fresh for made in again] == [False, False, True]
    assert [line.split(":")[0] for line in said] == ["TPC-H tables at scale 0.01", "orders/ds=2026-01-02"]
    assert before.items() <= files(tmp_path).items()


def test_a_damaged_or_differently_made_day_is_made_again(tmp_path: Path) -> None:
    spec = DataSpec(tmp_path, DAYS[:1], SCALE)
    generate(spec)
    whole = files(tmp_path)
    next((tmp_path / "orders").rglob("*.parquet")).write_bytes(b"half")
    assert [made.fresh for made in generate(spec)] == [False, True]
    assert files(tmp_path) == whole
    hot = generate(DataSpec(tmp_path, DAYS[:1], SCALE, hot_day=DAYS[0]))
    assert [made.fresh for made in hot] == [False, True]


@pytest.mark.parametrize(
    ("dates", "scale", "hot_day", "message"),
    [
        ((), 1.0, None, "no dates given; name at least one, for example --dates 2026-01-01,2026-01-02"),
        ((DAYS[0], DAYS[0]), 1.0, None, "2026-01-01 given more than once; name each date once"),
        (DAYS, 0.0, None, "scale is 0, expected a number above 0, for example 0.1"),
        (
            DAYS[:2],
            1.0,
            DAYS[2],
            "the hot day 2026-01-03 is not among the dates 2026-01-01, 2026-01-02; add it to the dates or choose one",
        ),
    ],
)
def test_wrong_parameters_are_named(dates: tuple[date, ...], scale: float, hot_day: date | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataSpec(Path("lake"), dates, scale, hot_day)


def test_a_missing_generator_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"tpchgen-cli was not found .* pip install 'airflow-abs\[demo\]'"):
        generate(DataSpec(tmp_path, DAYS, SCALE))


def test_a_failing_generator_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "tpchgen-cli"
    program.write_text("#!/bin/sh\necho no space left >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(RuntimeError, match="tpchgen-cli ended with status 3: no space left"):
        generate(DataSpec(tmp_path / "lake", DAYS, SCALE))
