"""A job from one PostgreSQL table to another, on a Spark that sees neither the server nor the password."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_abs import PostgresTable
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.runs.cleaning import release_job
from airflow_abs.testing.table_contract import planned_tables
from tests.tables.postgres.warehouse import PASSWORD, Warehouse

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

_ROWS = 100_000
_FILL = f"""
CREATE TABLE source AS SELECT id, (id % 7)::smallint AS a, (id % 11)::int AS b, (id / 7.0)::real AS c,
    id / 7.0::float8 AS d, (id / 100.0)::numeric(12, 2) AS e, id % 2 = 0 AS f,
    CASE WHEN id % 5 > 0 THEN md5(id::text) END AS g, date '0999-12-31' + id::int AS h,
    timestamp '1500-01-01' + id * interval '1.000001 h' AS i,
    timestamptz '1969-12-31' + id * interval '1.000001 s' AS j,
    decode(md5(id::text), 'hex') AS k, md5(id::text)::uuid AS l, jsonb_build_object('id', id) AS m,
    ARRAY[id, id + 1] AS n
FROM generate_series(1, {_ROWS}) AS id
"""


@pytest.mark.sample
def test_rows_are_the_same_at_any_parallelism_and_no_file_has_the_password(
    warehouse: Warehouse, tmp_path: Path, connect_server: ConnectEndpoint
) -> None:
    warehouse.execute(_FILL)
    warehouse.execute("CREATE TABLE target (LIKE source)")
    vertex = {
        "source": PostgresTable("warehouse", "source", as_text=["m", "n"]),
        "sink": PostgresTable("warehouse", "target", mode="overwrite"),
    }
    with planned_tables(connect_server, tmp_path / "exchange", {"t": vertex}) as tables:
        warehouse.execute("UPDATE source SET a = 0; DELETE FROM source WHERE id > 1000")  # after plan
        warehouse.execute(_FILL.replace("source", "expected"))
        for parallelism in (1, 3, 8):
            run = tables.run(parallelism)
            assert run["t"].decision.parallelism == parallelism
            assert warehouse.execute("SELECT count(*), count(DISTINCT id) FROM target") == [(_ROWS, _ROWS)]
            assert warehouse.execute("SELECT * FROM target EXCEPT ALL SELECT * FROM expected") == []
            warehouse.execute("DELETE FROM target WHERE id <= 100")
        files = [path for path in (tmp_path / "exchange").rglob("*") if path.is_file()]
        assert len(files) > 30
        assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []
        planned = JobFolder(tmp_path / "exchange", "contract", "planned", "job")
        landed = sorted(planned.path.glob("_landed-t/*/part-*"))
        assert len(landed) > 8
        whole = landed[3].read_bytes()
        landed[3].write_bytes(b"")
        with pytest.raises(Exception, match=rf"{landed[3].name} has 0 bytes, had {len(whole)}: this is a copy of"):
            tables.run(3, "emptied")
        landed[3].write_bytes(whole)
        release_job(planned)
        assert ([path for path in landed if path.exists()], planned.plan_path.exists()) == ([], True)
        with pytest.raises(Exception, match="this is a copy of a table's rows, which plan made and release deletes"):
            tables.run(1, "cleared")
