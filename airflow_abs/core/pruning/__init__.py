"""Which splits of a source can hold rows that are needed, by the values of a column that ran before (FLIP-248).

A split without known bounds is always kept: pruning may read too much, never too little.
"""
