"""What the corpus knows to be wrong today, by name: an entry that is mended has to leave this list, and none may come.

`GREEN_BUT_WRONG` and `FAILED` are defects. `NEEDLESS` are refusals of what plain reasoning says is safe: at most 2 % of
the safe entries.
"""

from __future__ import annotations

from collections.abc import Mapping

GREEN_BUT_WRONG: Mapping[str, str] = {}

FAILED: Mapping[str, str] = {
    "source_metadata": "placeholders have no column _metadata",
}

NEEDLESS: Mapping[str, str] = {
    "grouping_sets_that_hold_the_key": "Spark groups by the columns that Expand made",
    "semi_join_from_lookup_to_keyed": "that all rows of a key meet is not used for the whole side",
    "lookup_of_limited_whole": "that the order has no ties is known of the data only",
    "lateral_top_of_lookup": "Spark decorrelates it into a distinct of the outer values",
    "nearest_rows_of_lookup": "Spark groups by a number that it gives to every row",
    "key_in_struct_grouped": "an injective expression of the key",
    "key_cast_wider_grouped": "an injective expression of the key",
    "key_cast_to_text_grouped": "an injective expression of the key",
    "sql_distribute_by": "moves rows at the end, where nothing depends on it",
    "sql_cluster_by": "moves rows at the end, where nothing depends on it",
    "source_file_name": "of input_file_block_start() and input_file_block_length()",
}
