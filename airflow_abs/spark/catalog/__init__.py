"""Tables of Spark's own catalog: what it says of them, and whether their files are still what `plan` listed.

Statements only read. Writing to such a table is `tables/catalog/`.
"""
