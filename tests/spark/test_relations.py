from __future__ import annotations

from airflow_abs.spark.relations import no_rows, write_files


def test_a_write_leaves_out_what_costs_a_store_requests_unless_the_sink_asks_for_it() -> None:
    marked = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
    cleaned = "fs.s3a.committer.magic.cleanup.enabled"
    plain, own = (
        dict(write_files(no_rows("id BIGINT"), "/x", "parquet", options).command.write_operation.options)
        for options in ({"compression": "zstd"}, {cleaned: "true"})
    )
    assert plain == {"compression": "zstd", marked: "false", cleaned: "false"}
    assert own == {marked: "false", cleaned: "true"}
