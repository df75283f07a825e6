"""What an author expects of a vertex's rows, and whether counted rows meet it.

Spark counts (`spark/observing.py`); a verdict needs the counts only, never the rows.
"""
