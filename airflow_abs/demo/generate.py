"""`airflow-abs generate`: daily order files, TPC-H rows spread over days of very different volume.

Layout below the output folder::

    customers/part-<i>.parquet           customer_id, name, segment, nation, region
    orders/ds=<date>/part-<i>.parquet    order_id, customer_id, order_date, amount, status, priority, comment
    _made/<dataset>.json                 written last: the parameters that made this dataset

A day's rows depend on its date, the scale and whether it is the hot day; not on the other days or the time of making.
"""

# ruff: noqa: S608 -- the SQL is put together from our own numbers and paths

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_abs.core.wording import format_bytes

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LAYOUT_VERSION = 1
# Shares of the TPC-H orders table that three days in a row get, 30 to 1 between the largest and the smallest.
DAY_SHARES = (1, 9, 30)
SHARE_OF = 32
# A file holds an eighth of the table: days of one, three and eight files.
FILES_PER_TABLE = 8
CUSTOMER_FILES = 4
HOT_CUSTOMER = 1
ORDER_ID_STRIDE = 10_000_000_000

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DataSpec:
    """What to generate. `scale` is TPC-H's scale factor: the largest day has about 1.4 million orders times `scale`.

    Raises:
        ValueError: no dates, a date twice, a scale of 0 or below, or a hot day that is not among the dates.
    """

    out: Path
    dates: tuple[date, ...]
    scale: float
    hot_day: date | None = None

    def __post_init__(self) -> None:
        if not self.dates:
            raise ValueError("generate: no dates given; name at least one, for example --dates 2026-01-01,2026-01-02")
        repeated = sorted({str(day) for day in self.dates if self.dates.count(day) > 1})
        if repeated:
            raise ValueError(f"generate: {', '.join(repeated)} given more than once; name each date once")
        if not self.scale > 0:
            raise ValueError(f"generate: scale is {self.scale:g}, expected a number above 0, for example 0.1")
        if self.hot_day is not None and self.hot_day not in self.dates:
            raise ValueError(
                f"generate: the hot day {self.hot_day} is not among the dates "
                f"{', '.join(map(str, self.dates))}; add it to the dates or choose one of them"
            )


@dataclass(frozen=True, slots=True)
class Dataset:
    """One generated folder. `fresh` is False if it was there already, made with the same parameters."""

    name: str
    path: Path
    rows: int
    bytes: int
    files: int
    fresh: bool


def generate(spec: DataSpec, report: Report = lambda line: None) -> list[Dataset]:
    """Make the customers and every day's orders that are not there yet; in this order.

    Raises:
        FileNotFoundError: the program `tpchgen-cli` (extra `demo`) is not installed.
        RuntimeError: `tpchgen-cli` failed; its output is in the message.
    """
    wanted: list[tuple[str, dict[str, Any]]] = [("customers", _parameters(spec, None))]
    wanted += [(f"orders/ds={day}", _parameters(spec, day)) for day in spec.dates]
    made = {name: _read_marker(spec.out, name, parameters) for name, parameters in wanted}
    if all(made.values()):
        return [dataset for dataset in made.values() if dataset]
    spec.out.mkdir(parents=True, exist_ok=True)
    with _tpch_tables(spec, report) as connection:
        return [made[name] or _write(connection, spec.out, name, parameters, report) for name, parameters in wanted]


def day_rows(day: date, table_rows: int) -> int:
    """Orders of `day` out of a table of `table_rows`; any three days in a row differ at least 20-fold."""
    share = DAY_SHARES[day.toordinal() % len(DAY_SHARES)]
    percent = 90 + day.toordinal() * 7 % 11
    return max(1, table_rows * share * percent // (SHARE_OF * 100))


def _parameters(spec: DataSpec, day: date | None) -> dict[str, Any]:
    parameters: dict[str, Any] = {"layout": LAYOUT_VERSION, "scale": spec.scale}
    if day is not None:
        parameters |= {"day": str(day), "hot": day == spec.hot_day}
    return parameters


def _marker(out: Path, name: str) -> Path:
    return out / "_made" / f"{name.replace('/', '-')}.json"


def _read_marker(out: Path, name: str, parameters: dict[str, Any]) -> Dataset | None:
    try:
        found = json.loads(_marker(out, name).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    path = out / name
    files = list(path.glob("*.parquet"))
    size = sum(file.stat().st_size for file in files)
    if found["parameters"] != parameters or len(files) != found["files"] or size != found["bytes"]:
        return None
    return Dataset(name, path, found["rows"], size, len(files), fresh=False)


@contextmanager
def _tpch_tables(spec: DataSpec, report: Report) -> Iterator[DuckDBPyConnection]:
    """A connection with the views and tables `tpch_orders` (with a dense `position`) and `tpch_customers`."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix=".tpch-", dir=spec.out) as folder:
        report(f"TPC-H tables at scale {spec.scale:g}")
        _run_tpchgen(spec.scale, Path(folder))
        connection = duckdb.connect(str(Path(folder, "tables.duckdb")))
        try:
            connection.execute(
                f"""CREATE TABLE tpch_orders AS
                SELECT row_number() OVER (ORDER BY o_orderkey) - 1 AS position, * FROM '{folder}/orders.parquet'"""
            )
            connection.execute(
                f"""CREATE VIEW tpch_customers AS
                SELECT c_custkey AS customer_id, c_name AS name, c_mktsegment AS segment, n_name AS nation,
                       r_name AS region
                FROM '{folder}/customer.parquet' JOIN '{folder}/nation.parquet' ON c_nationkey = n_nationkey
                JOIN '{folder}/region.parquet' ON n_regionkey = r_regionkey"""
            )
            yield connection
        finally:
            connection.close()


def _run_tpchgen(scale: float, folder: Path) -> None:
    program = find_tpchgen()
    tables = "orders,customer,nation,region"
    done = subprocess.run(
        [
            program,
            "parquet",
            "--scale-factor",
            f"{scale:f}",
            "--tables",
            tables,
            "--output-dir",
            str(folder),
            "--quiet",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise RuntimeError(f"generate: {program} ended with status {done.returncode}: {said}")


def find_tpchgen() -> str:
    """The path of the program.

    Raises:
        FileNotFoundError: it is not installed.
    """
    # The environment's own program first: the console script may run without the environment being activated.
    beside = Path(sys.executable).with_name("tpchgen-cli")
    program = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if program is None:
        raise FileNotFoundError(
            "generate: the program tpchgen-cli was not found beside Python or on PATH; "
            "install the extra: pip install 'airflow-abs[demo]'"
        )
    return program


def _write(connection: DuckDBPyConnection, out: Path, name: str, parameters: dict[str, Any], report: Report) -> Dataset:
    """Write one dataset from nothing; its marker last, so that an interrupted one is made again."""
    _marker(out, name).unlink(missing_ok=True)
    path = out / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    select, rows, files = (
        _orders_query(connection, date.fromisoformat(parameters["day"]), hot=parameters["hot"])
        if "day" in parameters
        else _customers_query(connection)
    )
    for index in range(files):
        start, stop = rows * index // files, rows * (index + 1) // files
        connection.execute(
            f"COPY ({select} WHERE slot >= {start} AND slot < {stop} ORDER BY slot) "
            f"TO '{path}/part-{index:03d}.parquet' (FORMAT parquet, COMPRESSION zstd)"
        )
    size = sum(file.stat().st_size for file in path.iterdir())
    marker = _marker(out, name)
    marker.parent.mkdir(exist_ok=True)
    marker.write_text(json.dumps({"parameters": parameters, "rows": rows, "bytes": size, "files": files}) + "\n")
    report(f"{name}: {rows:,} rows, {format_bytes(size)} in {files} file{'s' if files > 1 else ''}")
    return Dataset(name, path, rows, size, files, fresh=True)


def _customers_query(connection: DuckDBPyConnection) -> tuple[str, int, int]:
    rows = _count(connection, "tpch_customers")
    # TPC-H numbers its customers from 1 without gaps.
    select = "SELECT * EXCLUDE slot FROM (SELECT *, customer_id - 1 AS slot FROM tpch_customers)"
    return select, rows, CUSTOMER_FILES


def _orders_query(connection: DuckDBPyConnection, day: date, *, hot: bool) -> tuple[str, int, int]:
    """`(query with a column slot in 0..rows-1, rows, files)`; when hot, two orders in five are one customer's."""
    table_rows = _count(connection, "tpch_orders")
    rows = day_rows(day, table_rows)
    shift = day.toordinal() * 7919 % table_rows
    customer = f"CASE WHEN position % 5 < 2 THEN {HOT_CUSTOMER} ELSE o_custkey END" if hot else "o_custkey"
    select = f"""SELECT {day.toordinal() * ORDER_ID_STRIDE}::BIGINT + o_orderkey AS order_id,
        ({customer})::BIGINT AS customer_id, DATE '{day}' AS order_date, o_totalprice::DECIMAL(12,2) AS amount,
        o_orderstatus AS status, o_orderpriority AS priority, o_comment AS comment
        FROM (SELECT *, (position + {shift}) % {table_rows} AS slot FROM tpch_orders)"""
    return select, rows, max(1, -(-rows * FILES_PER_TABLE // table_rows))


def _count(connection: DuckDBPyConnection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(row[0]) if row else 0
