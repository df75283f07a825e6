"""Which splits of a source can hold rows that are needed, by the values of a column that ran before (FLIP-248)."""
