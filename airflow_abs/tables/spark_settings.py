"""What Spark sessions need to read and to write a table's Parquet files as the table's own engines do."""

from __future__ import annotations

FIELD_ID = "parquet.field.id"
"""In the metadata of a field of Spark's: the id by which it is found in files."""

READ_SETTINGS = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # Else, where a server has it so, files without ids would read as NULL.
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
}
"""By field id where the schema has ids, by name elsewhere."""

WRITE_SETTINGS = {
    # Spark's own default, INT96, is no type of any table format's, and has no statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
