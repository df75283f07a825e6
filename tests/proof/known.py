"""What the corpus knows to be wrong today, by name: an entry that is mended has to leave this list, and none may come.

`GREEN_BUT_WRONG` and `FAILED` are defects. `NEEDLESS` are refusals of what plain reasoning says is safe: at most 2 % of
the safe entries.
"""

from __future__ import annotations

from collections.abc import Mapping

GREEN_BUT_WRONG: Mapping[str, str] = {}

FAILED: Mapping[str, str] = {}

NEEDLESS: Mapping[str, str] = {
    "lookup_of_limited_whole": "that the order has no ties is known of the data only",
    "lateral_top_of_lookup": "Spark decorrelates it into a distinct of the outer values",
    "nearest_rows_of_lookup": "Spark groups by a number that it gives to every row",
    "key_in_struct_grouped": "an injective expression of the key",
    "key_cast_wider_grouped": "an injective expression of the key",
    "key_cast_to_text_grouped": "an injective expression of the key",
}
