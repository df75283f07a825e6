"""`where` of a table of any kind: one grammar, that of pyiceberg, and one meaning, for files as for rows.

No table is opened here.
"""
